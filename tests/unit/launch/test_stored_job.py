"""A job in files: the same after reading, and secrets for the owner alone."""

import stat

import pytest

from fleetrec.core.errors import ConfigError
from fleetrec.launch.job_spec import JobSpec, Resources, RoleSpec
from fleetrec.launch.placement import LocalReplicas
from fleetrec.launch.stored_job import StoredJob, read_stored_job, write_stored_job


def make_stored(**env):
    server = RoleSpec(
        name="server",
        replicas=2,
        command=("python", "-m", "fleetrec.run"),
        env={"STORE_PASSWORD": "hush", "STATE": "s/${rank}"},
        resources=Resources(cpus=2, memory_bytes=1 << 30),
    )
    worker = RoleSpec(name="worker", replicas=1, command=("true", "a b"))
    tasks = (
        LocalReplicas(servers=(0, 1), workers=(), is_only_machine=False),
        LocalReplicas(servers=(), workers=(0,), is_only_machine=False),
    )
    return StoredJob(job=JobSpec(name="test", env=env, roles=(server, worker)), tasks=tasks)


def test_a_job_is_the_same_after_reading(tmp_path):
    stored = make_stored(FLEETREC_TOKEN="secret", CPU_NUM="2")
    write_stored_job(stored, tmp_path)
    assert read_stored_job(tmp_path) == stored


def test_secrets_are_in_no_file_that_others_can_read(tmp_path):
    (tmp_path / "tasks.secrets.json").write_text("")  # of an earlier version, readable
    for path in write_stored_job(make_stored(FLEETREC_TOKEN="secret", CPU_NUM="2"), tmp_path):
        is_private = stat.S_IMODE(path.stat().st_mode) == 0o600
        text = path.read_text()
        assert is_private == ("hush" in text) == ("secret" in text)


def test_servers_without_a_secret_get_a_new_one(tmp_path):
    tokens = set()
    for name in ("a", "b"):
        write_stored_job(make_stored(), tmp_path / name)
        tokens.add(read_stored_job(tmp_path / name).job.env["FLEETREC_TOKEN"])
    assert len(tokens) == 2


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"roles": [{}], "tasks": [], "env": {}}'])
def test_a_damaged_file_is_named(tmp_path, text):
    write_stored_job(make_stored(), tmp_path)
    (tmp_path / "tasks.json").write_text(text)
    with pytest.raises(ConfigError, match=r"tasks\.json"):
        read_stored_job(tmp_path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"tasks\.json: cannot be read"):
        read_stored_job(tmp_path)
