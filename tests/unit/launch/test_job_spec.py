import pytest

from fleetrec.launch.job_spec import JobSpec, Outcome, RoleSpec

WORKERS = RoleSpec(name="worker", replicas=2, command=("train",))
SERVERS = RoleSpec(name="server", replicas=1, command=("serve",), log_name="serverlog")


def test_workers_may_have_servers():
    job = JobSpec(name="job", roles=(WORKERS, SERVERS))
    assert (job.workers, job.servers) == (WORKERS, SERVERS)
    assert JobSpec(name="ranks", roles=(WORKERS,)).servers is None


@pytest.mark.parametrize("roles", [(), (SERVERS,), (WORKERS, WORKERS)])
def test_a_job_has_one_role_of_workers(roles):
    with pytest.raises(ValueError, match="expected the role worker, or worker and server"):
        JobSpec(name="job", roles=roles)


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"replicas": 0}, "at least 1 replica, got 0"), ({"command": ()}, "the command is empty")],
)
def test_a_role_that_starts_nothing_is_refused(fields, message):
    with pytest.raises(ValueError, match=f"role worker: .*{message}|role worker: {message}"):
        RoleSpec(**{"name": "worker", "replicas": 1, "command": ("train",), **fields})


def test_logs_are_named_by_role_and_number():
    assert WORKERS.log(1) == "worker.1"
    assert SERVERS.log(0) == "serverlog.0"


def test_variables_may_hold_the_number_of_a_replica():
    role = RoleSpec(name="worker", replicas=2, command=("train",), env={"STATE": "state/${rank}"})
    assert role.environment(1) == {"STATE": "state/1"}


def test_a_description_has_no_secrets():
    env = {"FLEETREC_TOKEN": "hush", "AWS_SECRET_ACCESS_KEY": "hush", "CPU_NUM": "2"}
    described = JobSpec(name="job", roles=(WORKERS,), env=env).describe()
    assert described["env"] == {
        "FLEETREC_TOKEN": "***",
        "AWS_SECRET_ACCESS_KEY": "***",
        "CPU_NUM": "2",
    }
    assert described["roles"][0]["replicas"] == 2


def test_a_failure_by_the_same_status_is_not_a_stop(tmp_path):
    assert Outcome(status=130).was_stopped
    assert not Outcome(status=130, log=tmp_path / "worker.0").was_stopped
