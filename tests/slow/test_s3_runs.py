"""Runs whose checkpoints and models are on S3: in one process, with servers, with ranks."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fleetrec.checkpoint.folder import published_names
from fleetrec.core import storage
from fleetrec.core.env import environment_with
from fleetrec.core.errors import CheckpointError
from fleetrec.core.launchers.own import place_environment
from fleetrec.core.place import Place
from fleetrec.launch.ports import reserved_endpoints
from making import make_data, make_job, run, tensors_of, write_job
from multiprocess.launching import started, wait_until
from storing_runs import RunContract, write_config

pytest.importorskip("s3fs")
pytest.importorskip("moto")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.multiprocess,
    # botocore's own, of Python versions and dates
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

SEVERAL = {
    "servers": {"server_num": 2, "distribute_strategy": "sync"},
    "ranks": {"fleet_mode": "collective"},
}


@pytest.fixture
def place(bucket):
    return f"s3://{bucket}/place"


class TestRuns(RunContract):
    """Over ``place``."""


def command(config, *options):
    return [sys.executable, "-m", "fleetrec.run", "-m", str(config), *options]


def test_a_killed_run_resumes_from_s3_and_ends_equal(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    local = str(tmp_path / "local")
    run(write_config(tmp_path, local))
    config = write_config(tmp_path, place)
    with started(command(config), tmp_path) as process:
        wait_until(lambda: published_names(storage.join(place, "steps")), "a checkpoint")
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert published_names(storage.join(place, "ckpt")) != ["0", "1"]
    run(config, resume=True)
    last, its = (storage.join(folder, "ckpt/1") for folder in (place, local))
    assert tensors_of(last) == tensors_of(its)


def test_a_missing_bucket_stops_a_run_before_its_first_step(bucket, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match="bucket does not exist"):
        run(write_config(tmp_path, "s3://nowhere-at-all/place"))
    assert not list(tmp_path.glob("logs/*/metrics.jsonl"))


@pytest.mark.parametrize("kind", SEVERAL)
def test_holders_of_shards_save_to_and_resume_from_s3(place, tmp_path, kind):
    """Every process writes its own files; only what each uploads is ever shared."""
    data = make_data(tmp_path / "data", num_samples=640, num_files=2)
    local = str(tmp_path / "local")
    run_several(tmp_path, data, kind, local)
    run_several(tmp_path, data, kind, place, "-o", "runner.train.epochs=1")
    run_several(tmp_path, data, kind, place, "--resume")
    assert f"resumed from {storage.join(place, '0')}" in all_logs(tmp_path)
    assert tensors_of(storage.join(place, "1")) == tensors_of(storage.join(local, "1"))


@pytest.mark.parametrize("kind", SEVERAL)
def test_processes_that_share_no_folder_save_to_and_resume_from_s3(place, tmp_path, kind):
    """Each has its own copy of config and data, and writes only below its own folder."""
    data = make_data(tmp_path / "data", num_samples=640, num_files=2)
    local = str(tmp_path / "local")
    run_several(tmp_path, data, kind, local)
    for options in (("-o", "runner.train.epochs=1"), ("--resume",)):
        outputs = run_apart(tmp_path / "apart", data, kind, place, *options)
    assert f"resumed from {storage.join(place, '0')}" in "".join(outputs)
    assert tensors_of(storage.join(place, "1")) == tensors_of(storage.join(local, "1"))


def run_apart(folder, data, kind, place, *options):
    """Start each process of a job in a folder of its own, as a cluster does; return the outputs."""
    keys = {"class": "cluster_train", "worker_num": 2, **SEVERAL[kind]}
    job = make_job(Path("data"), batch_size=16, save_checkpoint_path=place, **keys)
    job["hyper_parameters"]["distributed_embedding"] = 1
    num_servers = SEVERAL[kind].get("server_num", 0)
    num_ports = num_servers or 1
    with reserved_endpoints(["127.0.0.1:0"] * num_ports, own=range(num_ports)) as held:
        places = [*servers(held), *workers(held)] if num_servers else ranks(held[0])
        started = []
        for one in places:
            own = folder / f"{one.role}{one.rank}"
            if not own.exists():
                shutil.copytree(data, own / "data")
            write_job(job, own / "config.yaml")
            started.append(start(own, one, *options))
        outputs = [process.communicate(timeout=300)[0] for process in started]
    assert [process.returncode for process in started] == [0] * len(started), outputs
    return outputs


def servers(endpoints):
    return [
        Place(role="server", rank=rank, num_workers=2, server_endpoints=endpoints)
        for rank in range(len(endpoints))
    ]


def workers(endpoints):
    return [
        Place(role="worker", rank=rank, num_workers=2, server_endpoints=endpoints)
        for rank in range(2)
    ]


def ranks(store):
    return [
        Place(role="worker", rank=rank, num_workers=2, store=store, is_store_host=rank == 0)
        for rank in range(2)
    ]


def start(folder, place, *options):
    return subprocess.Popen(
        command("config.yaml", *options),
        cwd=folder,
        env=environment_with(place_environment(place), unless_set={}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run_several(folder, data, kind, place, *options):
    """Train with two workers and what the kind needs, for two epochs."""
    keys = {"class": "local_cluster_train", "worker_num": 2, **SEVERAL[kind]}
    job = make_job(data, batch_size=16, save_checkpoint_path=place, **keys)
    job["hyper_parameters"]["distributed_embedding"] = 1
    config = write_job(job, folder / f"{storage.name_of(place)}.yaml")
    done = subprocess.run(
        command(config, *options),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def all_logs(folder):
    return "".join(path.read_text() for path in (folder / "logs").rglob("*") if path.is_file())
