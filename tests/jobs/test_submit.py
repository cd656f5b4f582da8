"""Submitting jobs with the engine of this machine: folder, data, state, logs, end."""

import json
import re
import time
from pathlib import Path

import pytest

from fleetrec.cli.job_verbs import cancel_job, show_logs, show_status
from fleetrec.cli.run import RunRequest, run_command
from fleetrec.cli.submit import engine_of, submit_again, submit_command
from fleetrec.cli.submit_plan import SubmitRequest
from fleetrec.core.errors import ConfigError
from fleetrec.launch.stored_job import JOB_FILE, SECRETS_FILE
from fleetrec.launch.submission import load_record
from making_cluster import make_workspace, write_yaml
from making_pipelines import ADAM, MODELS, write_pipeline

pytestmark = pytest.mark.multiprocess
TIMEOUT_S = 60


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    folder = make_workspace(tmp_path / "dnn")
    config = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(config.replace("cluster_train", "train"))
    monkeypatch.chdir(folder)
    return folder


def submit(folder: Path, *, config=None, model="config.yaml", dry_run=False, **keys) -> Path:
    """Submit a job of one process that runs ``start_cmd``; returns the job folder."""
    backend = {
        "backend": "local",
        "config": config or {},
        "submit": {"job_name": "try", "files": "./*.py", **keys},
    }
    write_yaml(folder / "backend.yaml", backend)
    before = set(folder.glob("try_*"))
    submit_command(SubmitRequest(model=model, backend_file=Path("backend.yaml"), dry_run=dry_run))
    (made,) = set(folder.glob("try_*")) - before
    return made


def make_pipeline(folder: Path, strategy: str) -> None:
    paths = {name: folder / f"train_data/{name}.csv" for name in ("train", "eval")}
    train_config = f"{ADAM} train_distribute: {strategy}"
    write_pipeline(folder, MODELS["DeepFM"], paths=paths, train_config=train_config)


def wait_for_end(made: Path) -> str:
    record = load_record(made)
    engine, job_id = engine_of(record, made), record.submissions[-1].job_id
    deadline = time.monotonic() + TIMEOUT_S
    while not (status := engine.status(made, job_id)).has_ended:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return status.state


def test_data_is_there_before_the_command_and_results_are_uploaded_after_it(
    workspace, tmp_path, capsys
):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/part-0").write_text("4711\n")
    config = {"train_data_path": str(tmp_path / "data"), "output_path": str(tmp_path / "out")}
    made = submit(
        workspace,
        config=config,
        start_cmd="cat train_data/part-0 > got.txt; echo role $PADDLE_PADDLEREC_ROLE $CPU_NUM",
    )
    assert wait_for_end(made) == "succeeded"
    assert (tmp_path / "out/got.txt").read_text() == "4711\n"
    assert not (tmp_path / "out/model.py").exists()  # not a result
    capsys.readouterr()
    show_status(made, job_id=None)
    show_logs(made, job_id=None)
    shown = capsys.readouterr().out
    assert ": succeeded" in shown
    assert "worker.0: role WORKER 1" in shown


def test_a_failed_job_says_so(workspace, capsys):
    made = submit(workspace, start_cmd="echo no luck; exit 3")
    assert wait_for_end(made) == "failed"
    with pytest.raises(SystemExit) as end:
        show_status(made, job_id=None)
    assert end.value.code == 1
    assert "no luck" in capsys.readouterr().out


def test_results_that_cannot_be_uploaded_fail_the_job_and_stay(workspace, tmp_path, capsys):
    (tmp_path / "out").write_text("a file")
    made = submit(
        workspace, config={"output_path": str(tmp_path / "out")}, start_cmd="echo 1 > got.txt; :"
    )
    assert wait_for_end(made) == "failed"
    assert (made / "got.txt").is_file()
    show_logs(made, job_id=None)
    assert f"the results are still in {made} on " in capsys.readouterr().out


def test_a_job_can_be_cancelled_and_submitted_again(workspace, capsys):
    made = submit(workspace, start_cmd="sleep 600")
    cancel_job(made, job_id=None)
    assert wait_for_end(made) == "cancelled"
    rendered = json.loads((made / JOB_FILE).read_text())
    command = rendered["roles"][0]["command"]
    rendered["roles"][0]["command"] = [*command[: command.index("--") + 1], "true"]
    (made / JOB_FILE).write_text(json.dumps(rendered))
    submit_again(made, dry_run=False)
    assert wait_for_end(made) == "succeeded"
    first, second = (one.job_id for one in load_record(made).submissions)
    assert first != second
    with pytest.raises(ConfigError, match="--id 1-2: not submitted from"):
        show_status(made, job_id="1-2")


def test_nothing_runs_with_dry_run_and_each_folder_is_new(workspace, capsys):
    made = [submit(workspace, dry_run=True) for _ in range(3)]
    assert len(set(made)) == 3
    assert all(re.fullmatch(r"try_\d{12}(_[23])?", folder.name) for folder in made)
    assert "not submitted (--dry-run); to submit it: fleetrec submit" in capsys.readouterr().out
    with pytest.raises(ConfigError, match=r"was not submitted; fleetrec submit .* does it"):
        show_status(made[0], job_id=None)
    with pytest.raises(ConfigError, match=r"no job folder, it has no job\.json"):
        show_status(workspace, job_id=None)


def test_the_private_parts_of_a_job_are_private(workspace, capsys):
    env = {"AWS_SECRET_ACCESS_KEY": "s3cr3t", "MY_NAME": "shown"}
    made = submit(workspace, config={"env": env}, dry_run=True)
    out = capsys.readouterr().out
    assert "AWS_SECRET_ACCESS_KEY=*** MY_NAME=shown" in out
    holders = [path for path in made.iterdir() if b"s3cr3t" in path.read_bytes()]
    assert {path.name for path in holders} == {"backend.yaml", SECRETS_FILE}
    assert all(path.stat().st_mode & 0o077 == 0 for path in holders)


def test_resources_become_those_of_the_roles(tmp_path, monkeypatch, capsys):
    folder = make_workspace(tmp_path / "dnn")
    monkeypatch.chdir(folder)
    submit(
        folder,
        dry_run=True,
        **{"k8s_trainers": 3, "k8s-cpu-cores": 4, "k8s_ps_num": 2, "server_memory": "2Gi"},
    )
    out = capsys.readouterr().out
    assert re.search(r"server: +2, each with 2 GiB\n", out)
    assert re.search(r"worker: +3, each with 4 CPUs\n", out)


def test_nodes_run_a_server_and_a_worker_each(tmp_path, monkeypatch, capsys):
    folder = make_workspace(tmp_path / "dnn")
    monkeypatch.chdir(folder)
    submit(folder, dry_run=True, nodes=3)
    assert re.search(r"server: +3\nworker: +3\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("strategy", "keys", "servers"),
    [
        ("NoStrategy", {"workers": 2, "servers": 2}, 2),
        ("NoStrategy", {"workers": 2}, 0),
        ("PSStrategy", {"workers": 2, "servers": 1}, 1),
        ("EmbeddingParallelStrategy", {"workers": 2}, 0),
    ],
)
def test_a_pipeline_gets_the_processes_of_the_backend_file(
    tmp_path, monkeypatch, strategy, keys, servers
):
    monkeypatch.chdir(tmp_path)
    make_pipeline(tmp_path, strategy)
    made = submit(tmp_path, model="pipeline.config", files="", dry_run=True, **keys)
    rendered = json.loads((made / JOB_FILE).read_text())
    found = {role["name"]: role["replicas"] for role in rendered["roles"]}
    assert found == {"worker": 2, **({"server": servers} if servers else {})}
    command = rendered["roles"][0]["command"]
    assert command[command.index("--") + 1 :] == [
        *("python", "-m", "fleetrec.train_eval", "-m", "pipeline.config")
    ]


def test_servers_of_a_pipeline_without_any_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_pipeline(tmp_path, "EmbeddingParallelStrategy")
    with pytest.raises(ConfigError, match=r"submit.servers: the job has no servers"):
        submit(tmp_path, model="pipeline.config", files="", servers=1, workers=2)


def test_a_backend_file_that_a_job_does_not_need_is_reported(workspace, caplog):
    (workspace / "train_data").mkdir()
    (workspace / "train_data/a").write_text("click:1 1:2 2:3 3:4 dense_feature:0 dense_feature:1\n")
    write_yaml(workspace / "backend.yaml", {"backend": "local"})
    run_command(RunRequest(model="config.yaml"), backend=Path("backend.yaml"))
    assert "backend.yaml is not used: no runner of mode has class: cluster_train" in caplog.text
