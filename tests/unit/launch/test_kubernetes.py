"""The engine for Kubernetes: what it renders, asks of kubectl, and refuses."""

import base64
import json
import os
import stat

import pytest
from ruamel.yaml import YAML

from fleetrec.config.cluster.kubernetes import KubernetesOptions
from fleetrec.core.errors import ConfigError, UnavailableError
from fleetrec.launch.kubernetes import KubernetesEngine
from fleetrec.launch.manifests.files import MAX_BYTES
from making_manifests import IMAGE, make_job_folder, ps_job, rank_job


def engine(**keys):
    return KubernetesEngine(KubernetesOptions(image=IMAGE, **keys))


def read(path):
    return list(YAML(typ="safe").load_all(path.read_text()))


@pytest.fixture
def kubectl(tmp_path, monkeypatch):
    """A client that writes down its calls, and answers what a test puts into a file."""
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "kubectl"
    program.write_text(
        f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\n'
        f'if [ "$1" = "$(cat {tmp_path}/broken)" ]; then echo "Forbidden: no" >&2; exit 1; fi\n'
        f'if [ "$1" = get ]; then cat {tmp_path}/answer; fi\n'
        f'if [ "$1" = logs ]; then echo "[pod/a/fleetrec] epoch 0"; fi\n'
    )
    program.chmod(0o755)
    (tmp_path / "broken").write_text("nothing")
    (tmp_path / "answer").write_text("")
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    return tmp_path


def calls(kubectl):
    return (kubectl / "calls").read_text().splitlines()


def workers(**status):
    return json.dumps({"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, "status": status})


def test_secrets_are_in_one_file_that_only_its_owner_reads(tmp_path):
    folder = make_job_folder(tmp_path)
    paths = engine().render(ps_job(STORE_PASSWORD="hidden"), folder)
    found = {path.name: path for path in paths}
    assert stat.S_IMODE(found["2-secrets.yaml"].stat().st_mode) == 0o600
    for secret in ("s3cret", "hidden", "private", "never in a pod"):
        encoded = base64.b64encode(secret.encode()).decode()[:6]
        for name, path in found.items():
            if name != "2-secrets.yaml":
                assert secret not in path.read_text()
                assert encoded not in path.read_text()
    (item,) = read(found["2-secrets.yaml"])
    assert base64.b64decode(item["data"]["server.STORE_PASSWORD"]) == b"hidden"
    assert "backend.yaml" not in item["data"]


def test_servers_get_a_token_if_the_job_has_none(tmp_path):
    job = ps_job()
    folder = make_job_folder(tmp_path)
    engine().render(type(job)(name=job.name, roles=job.roles), folder)
    (item,) = read(folder / "kubernetes/2-secrets.yaml")
    assert len(base64.b64decode(item["data"]["FLEETREC_TOKEN"])) == 32


def test_too_large_files_are_refused_before_anything_is_written(tmp_path):
    folder = make_job_folder(tmp_path)
    (folder / "data.txt").write_bytes(b"x" * MAX_BYTES)
    with pytest.raises(ConfigError, match=r"data\.txt \(1048576 bytes\).*train_data_path"):
        engine().render(ps_job(), folder)
    assert not (folder / "kubernetes").exists()


def test_a_new_rendering_replaces_the_files_of_an_earlier_one(tmp_path):
    folder = make_job_folder(tmp_path)
    engine().render(ps_job(), folder)
    engine().render(rank_job(), folder)
    names = {path.name for path in (folder / "kubernetes").iterdir()}
    assert names == {"1-files.yaml", "2-secrets.yaml", "4-workers.yaml"}


@pytest.mark.parametrize("flavour", ["pytorchjob", "trainjob"])
def test_kubeflows_jobs_have_no_servers(tmp_path, flavour):
    with pytest.raises(ConfigError, match=r"no parameter servers; use flavour: plain"):
        engine(flavour=flavour).render(ps_job(), make_job_folder(tmp_path))


def test_nothing_ends_servers_where_roles_may_not_be_created(tmp_path):
    folder = make_job_folder(tmp_path)
    engine(cleanup="cancel").render(ps_job(), folder)
    assert not (folder / "kubernetes/5-end.yaml").exists()


def test_submit_applies_the_folder_with_its_edited_files(tmp_path, kubectl):
    folder = make_job_folder(tmp_path)
    engine().render(ps_job(), folder)
    (folder / "config.yaml").write_text("mode: infer\n")
    (folder / "keys.txt").write_text("changed\n")
    job = engine().submit(folder)
    assert job.job_id == "paddlerec-ctr-202007091308"
    assert job.job_id in job.follow[0]
    assert calls(kubectl)[-1] == f"apply --server-side --force-conflicts -f {folder}/kubernetes"
    (files,) = read(folder / "kubernetes/1-files.yaml")
    assert files["data"]["config.yaml"] == "mode: infer\n"
    assert base64.b64decode(files["binaryData"]["model.bin"]) == b"\xff\x00\x01"
    (secret,) = read(folder / "kubernetes/2-secrets.yaml")
    assert base64.b64decode(secret["data"]["keys.txt"]) == b"changed\n"
    assert base64.b64decode(secret["data"]["FLEETREC_TOKEN"]) == b"s3cret"


def test_a_file_that_has_gone_is_named(tmp_path, kubectl):
    folder = make_job_folder(tmp_path)
    engine().render(ps_job(), folder)
    (folder / "config.yaml").unlink()
    with pytest.raises(ConfigError, match=r"config\.yaml: no such file"):
        engine().submit(folder)


def test_a_running_job_is_not_submitted_again(tmp_path, kubectl):
    folder = make_job_folder(tmp_path)
    engine().render(ps_job(), folder)
    (kubectl / "answer").write_text(workers(active=3, ready=2))
    with pytest.raises(ConfigError, match="is running; end it first"):
        engine().submit(folder)
    assert not [call for call in calls(kubectl) if call.startswith("apply")]


def test_a_job_that_has_ended_is_replaced(tmp_path, kubectl):
    folder = make_job_folder(tmp_path)
    engine().render(ps_job(), folder)
    failed = {"type": "Failed", "status": "True", "message": "backoff limit"}
    (kubectl / "answer").write_text(workers(conditions=[failed]))
    engine().submit(folder)
    verbs = [call.partition(" ")[0] for call in calls(kubectl)]
    assert verbs == ["get", "delete", "delete", "apply"]
    deleted = [call for call in calls(kubectl) if call.startswith("delete")]
    assert ["5-end" in deleted[0], "4-workers" in deleted[1]] == [True, True]


def test_logs_and_cancel_name_the_pods_of_the_job(tmp_path, kubectl):
    folder = make_job_folder(tmp_path)
    engine(namespace="ads").render(ps_job(), folder)
    name = "paddlerec-ctr-202007091308"
    assert list(engine().logs(folder, name)) == ["[pod/a/fleetrec] epoch 0"]
    assert "--namespace=ads" in calls(kubectl)[-1]
    engine().cancel(folder, name)
    assert [call.split()[2].rpartition("/")[2] for call in calls(kubectl)[-2:]] == [
        "4-workers.yaml",
        "kubernetes",
    ]
    with pytest.raises(ConfigError, match="holds job paddlerec-ctr-202007091308, not other"):
        engine().cancel(folder, "other")


def test_what_kubectl_says_is_shown(tmp_path, kubectl):
    folder = make_job_folder(tmp_path)
    engine().render(ps_job(), folder)
    (kubectl / "broken").write_text("apply")
    with pytest.raises(UnavailableError, match=r"kubectl apply .*: exit status 1: Forbidden: no"):
        engine().submit(folder)


def test_a_missing_client_is_named(tmp_path, monkeypatch):
    folder = make_job_folder(tmp_path)
    engine().render(ps_job(), folder)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="kubectl: not found; install the client"):
        engine().submit(folder)


def test_a_folder_without_manifests_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"no such file; this is no folder of a job"):
        engine().status(tmp_path, "x")
