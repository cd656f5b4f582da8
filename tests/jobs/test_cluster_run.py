"""Runners of class local_cluster: servers and workers on one machine, as a user runs them."""

import contextlib
import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

from fleetrec.cli.cluster import server_job
from fleetrec.core.env import environment_with
from fleetrec.launch.local import LocalLauncher
from fleetrec.launch.local import run_job as poll_to_end
from fleetrec.launch.placement import assign_replicas
from making import make_data, make_job, tensors_of, write_job
from multiprocess.launching import children_of, is_running, started, wait_until, wait_until_gone

pytestmark = pytest.mark.multiprocess


def make_cluster_job(folder, *, num_samples=640, **runner):
    """Two workers and two servers that make all steps together."""
    keys = {"class": "local_cluster", "worker_num": 2, "server_num": 2, "print_interval": 1}
    job = make_job(
        make_data(folder / "data", num_samples=num_samples, num_files=2),
        batch_size=16,
        **{"distribute_strategy": "sync", **keys, **runner},
    )
    return write_job(job, folder / "config.yaml")


def command(*arguments):
    return [sys.executable, "-m", "fleetrec", "run", *arguments]


def run_job(folder, *arguments, environment=None):
    return subprocess.run(
        command(*arguments),
        cwd=folder,
        env=environment_with(environment or {}, unless_set={}),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def running_job(folder, *arguments):
    return started(command(*arguments), folder)


def processes_of(supervisor):
    """Return the pids of a job's processes by role and index, as their environment tells."""
    found = {}
    for pid, env in children_of(supervisor).items():
        if env.get("TRAINING_ROLE") == "TRAINER":
            found["worker", int(env["PADDLE_TRAINER_ID"])] = pid
        elif env.get("TRAINING_ROLE") == "PSERVER":
            found["server", env["PADDLE_PORT"]] = pid
    return found


def num_intervals(folder):
    metrics = folder / f"logs/{folder.name}.train/metrics.jsonl"
    return metrics.read_text().count('"interval"') if metrics.is_file() else 0


@pytest.mark.parametrize(("worker_num", "server_num"), [(1, 1), (3, 2)])
def test_the_built_in_runner_trains(tmp_path, worker_num, server_num):
    runner = "runner.local_cluster_cpu_train"
    done = run_job(
        tmp_path,
        *("-m", "fleetrec.models.rank.dnn", "-o", "mode=local_cluster_cpu_train"),
        *("-o", f"{runner}.worker_num={worker_num}", "-o", f"{runner}.server_num={server_num}"),
        *("-o", f"{runner}.epochs=1"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passes = re.findall(r"epoch 0 done.*AUC=\[([\d.]+)\].*SAMPLES=\[(\d+)\]", done.stdout)
    assert [count for _, count in passes] == ["4500"]  # once, and about all workers
    assert float(passes[0][0]) > 0.55
    logs = tmp_path / "logs"
    names = {path.name for path in logs.glob("[sw]*.[0-9]")}
    assert names == {
        *(f"server.{i}" for i in range(server_num)),
        *(f"worker.{i}" for i in range(worker_num)),
    }
    assert (logs / "dnn.local_cluster_cpu_train/report.html").is_file()
    assert not list((logs / "dnn.local_cluster_cpu_train/servers").iterdir())
    assert (tmp_path / "increment_dnn/0/MANIFEST.json").is_file()
    assert "checkpoint:      increment_dnn/0" in done.stdout


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """The tensors of a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("unbroken")
    make_cluster_job(folder)
    done = run_job(folder, "-m", "config.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    return tensors_of(folder / "ckpt/1")


@pytest.mark.parametrize("role", ["worker", "server"])
def test_a_killed_process_costs_nothing(tmp_path, unbroken, role):
    make_cluster_job(tmp_path)
    with running_job(tmp_path, "-m", "config.yaml") as supervisor:
        wait_until(lambda: num_intervals(tmp_path) >= 3, "the first steps")
        victims = [pid for (kind, _), pid in processes_of(supervisor).items() if kind == role]
        os.kill(victims[0], signal.SIGKILL)
        output, _ = supervisor.communicate(timeout=300)
    assert supervisor.returncode == 0, output
    assert re.search(rf"{role}\.\d was killed by SIGKILL; started again \(1 of 3\)", output)
    assert tensors_of(tmp_path / "ckpt/1") == unbroken


def test_an_interrupted_job_is_resumed_where_it_was(tmp_path, unbroken):
    make_cluster_job(tmp_path)
    with running_job(tmp_path, "-m", "config.yaml") as supervisor:
        wait_until(lambda: num_intervals(tmp_path) >= 3, "the first steps")
        pids = processes_of(supervisor).values()
        supervisor.send_signal(signal.SIGINT)
        output, _ = supervisor.communicate(timeout=300)
    assert supervisor.returncode == 130, output
    assert "resume with the same command and --resume" in output
    assert not any(is_running(pid) for pid in pids)
    assert not (tmp_path / "ckpt/1").exists()
    done = run_job(tmp_path, "-m", "config.yaml", "--resume")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "continues after step" in (tmp_path / "logs/worker.0").read_text()
    assert tensors_of(tmp_path / "ckpt/1") == unbroken


def test_a_job_without_its_servers_goes_on_from_a_checkpoint_within_an_epoch(tmp_path, unbroken):
    make_cluster_job(tmp_path, save_step_path="steps", save_step_interval=6)
    with running_job(tmp_path, "-m", "config.yaml") as supervisor:
        wait_until(lambda: num_intervals(tmp_path) >= 9, "the first steps")
        supervisor.send_signal(signal.SIGINT)
        output, _ = supervisor.communicate(timeout=300)
    assert supervisor.returncode == 130, output
    assert not (tmp_path / "ckpt/1").exists()
    shutil.rmtree(tmp_path / f"logs/{tmp_path.name}.train/servers")  # their disks are gone
    done = run_job(tmp_path, "-m", "config.yaml", "--resume")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"resumed from steps/epoch_\d_batch_", text_of(tmp_path / "logs/worker.0"))
    assert tensors_of(tmp_path / "ckpt/1") == unbroken
    shutil.rmtree(tmp_path / "ckpt")
    fewer = ("-o", "runner.train.worker_num=1", "-o", "runner.train.epochs=1")
    done = run_job(tmp_path, "-m", "config.yaml", "--resume", *fewer)
    assert done.returncode == 0, done.stdout + done.stderr
    told = text_of(tmp_path / "logs/worker.0")
    assert "written by 2 workers within an epoch, now there are 1" in told
    assert "this is a new run" in told


def text_of(path):
    return path.read_text() if path.is_file() else ""


def test_a_worker_that_waits_for_another_stops_too(tmp_path):
    make_cluster_job(tmp_path, epochs=1000)
    with running_job(tmp_path, "-m", "config.yaml") as supervisor:
        wait_until(lambda: num_intervals(tmp_path) >= 3, "the first steps")
        pids = processes_of(supervisor)
        os.kill(pids["worker", 1], signal.SIGSTOP)  # from now on nobody can make a step
        supervisor.send_signal(signal.SIGINT)
        wait_until_gone(pids["worker", 0])
        os.kill(pids["worker", 1], signal.SIGCONT)
        output, _ = supervisor.communicate(timeout=300)
    assert supervisor.returncode == 130, output
    assert "did not end within" not in output


def test_nothing_survives_a_killed_supervisor(tmp_path):
    make_cluster_job(tmp_path)
    with running_job(tmp_path, "-m", "config.yaml") as supervisor:
        wait_until(lambda: len(processes_of(supervisor)) == 4, "all processes to start")
        pids = processes_of(supervisor).values()
        supervisor.send_signal(signal.SIGKILL)
        wait_until_gone(*pids)


def test_a_bad_row_ends_the_job_with_its_line_and_without_restarts(tmp_path):
    make_cluster_job(tmp_path)
    with (tmp_path / "data/part-1").open("a") as stream:
        stream.write("click:1 nonsense\n")
    done = run_job(tmp_path, "-m", "config.yaml", "-o", "runner.train.epochs=1")
    assert done.returncode == 1
    assert re.search(r"--- the end of logs/worker\.1\n", done.stderr)
    assert "part-1:321: column 9: 'nonsense': expected slot:value" in done.stderr
    assert done.stderr.endswith("error: worker.1 ended with status 1; logs: logs\n")
    assert "started again" not in done.stdout
    assert "Traceback" not in done.stderr


def test_a_mistake_that_only_workers_can_find_is_shown_once_and_not_repeated(tmp_path):
    make_cluster_job(tmp_path)
    mistake = ("-o", "hyper_parameters.sparse_inputs_slots=9")
    done = run_job(tmp_path, "-m", "config.yaml", *mistake)
    assert done.returncode == 2
    assert done.stderr.count("sparse_inputs_slots says 9, the data set declares 4") == 1
    assert re.search(r"error: worker\.\d ended with status 2; logs: logs\n$", done.stderr)
    assert "started again" not in done.stdout
    assert "Traceback" not in done.stderr


def test_a_cluster_checkpoint_is_judged_by_one_process(tmp_path):
    make_cluster_job(tmp_path, epochs=1)
    done = run_job(tmp_path, "-m", "config.yaml", "-o", "mode=[train, infer]")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Infer judge of epoch 0 done" in done.stdout
    records = (tmp_path / f"logs/{tmp_path.name}.train/metrics.jsonl").read_text().splitlines()
    (summed,) = [r for r in map(json.loads, records) if r["event"] == "pass"]
    assert summed["metrics"]["SAMPLES"] == 640


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["async", "half_async", "geo"])
def test_workers_learn_by_every_strategy(tmp_path, strategy):
    config = make_cluster_job(tmp_path, num_samples=2000, epochs=3, server_num=1)
    done = run_job(
        tmp_path,
        *("-m", str(config), "-o", f"runner.train.distribute_strategy={strategy}"),
        *("-o", "train={strategy: {mode: {push_num: 5}}}"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.findall(r"epoch 2 done.*AUC=\[([\d.]+)\].*SAMPLES=\[(\d+)\]", done.stdout)
    assert [count for _, count in found] == ["2000"]
    assert float(found[0][0]) > 0.75


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate with openssl")
def test_a_job_can_speak_tls(tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    names = ["-subj", "/CN=local", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*make, *names, *files], check=True, capture_output=True)
    make_cluster_job(tmp_path, epochs=1, worker_num=1, server_num=1)
    told = {
        "FLEETREC_TLS_CERTIFICATE": str(certificate),
        "FLEETREC_TLS_KEY": str(key),
        "FLEETREC_TLS_AUTHORITY": str(certificate),
    }
    done = run_job(tmp_path, "-m", "config.yaml", environment=told)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_cluster_runner_takes_the_part_that_its_environment_tells(tmp_path):
    """Whoever sets the variables is a cluster manager; here it is our supervisor."""
    config = make_cluster_job(tmp_path, epochs=1, **{"class": "cluster_train"})
    arguments = ("run", "-m", str(config), "-o", f"runner.train.save_checkpoint_path={tmp_path}/c")
    process = (sys.executable, "-m", "fleetrec", *arguments, "--log-dir", str(tmp_path / "logs"))
    placement = assign_replicas(num_workers=2, num_servers=1)
    job = server_job(process, placement, state_dir=tmp_path / "held")
    # With another machine, servers have to end by themselves.
    local = dataclasses.replace(placement.local, is_only_machine=False)
    launcher = LocalLauncher(placement=dataclasses.replace(placement, local=local))
    with contextlib.closing(launcher.start(job, tmp_path / "out")) as running:
        outcome = poll_to_end(running)
    assert outcome.status == 0, outcome.tail
    assert (tmp_path / "c/0/MANIFEST.json").is_file()
    assert "epoch 0 done" in (tmp_path / "out/worker.0").read_text()


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"device": "gpu"}, 1, "servers compute on the CPU; use device: cpu and fleet_mode: ps"),
        ({"fleet_mode": "pslib"}, 1, "fleet_mode pslib is not available; use fleet_mode: ps"),
        ({"device": "gpu", "fleet_mode": "collective"}, 1, "PyTorch finds no GPU here"),
        ({"class": "train", "device": "gpu", "selected_gpus": "0,1"}, 1, "finds no GPU here"),
        ({"class": "cluster_train", "fleet_mode": "collective"}, 1, "by torchrun on each machine"),
        ({"class": "cluster_train"}, 1, "class cluster is for the nodes of a cluster"),
        (
            {
                "distribute_strategy": "geo",
                "save_step_path": "steps",
                "save_step_interval": 2,
            },
            2,
            "checkpoints within an epoch need another",
        ),
        ({"communicator": {"pull_ahead": 1}}, 2, "pull_ahead is for distribute_strategy: async"),
        (
            {
                "distribute_strategy": "async",
                "communicator": {"pull_ahead": 1, "FLAGS_communicator_send_queue_size": 2},
            },
            2,
            "with pull_ahead at most one step is pending",
        ),
    ],
)
def test_what_servers_cannot_do_starts_nothing(tmp_path, change, status, message):
    make_cluster_job(tmp_path, **change)
    done = run_job(tmp_path, "-m", "config.yaml")
    assert done.returncode == status
    assert message in done.stderr
    assert not (tmp_path / "logs").exists()


def test_all_phases_that_a_runner_names_are_trained(tmp_path):
    config = make_cluster_job(tmp_path, phases=["learn", "judge"], epochs=2)
    found = run_job(tmp_path, "-m", str(config))
    assert found.returncode == 0, found.stdout + found.stderr
    tables = json.loads((tmp_path / "ckpt" / "1" / "MANIFEST.json").read_text())["tables"]
    assert tables.keys() == {"learn", "judge"}
    rows = {name: its["SparseFeatFactors"]["rows"] for name, its in tables.items()}
    assert rows["learn"] == rows["judge"] > 0
    passes = [
        json.loads(line)
        for line in (tmp_path / "logs" / f"{tmp_path.name}.train" / "metrics.jsonl")
        .read_text()
        .splitlines()
    ]
    done = [(one["phase"], one["epoch"]) for one in passes if one["event"] == "pass"]
    assert done == [("learn", "0"), ("judge", "0"), ("learn", "1"), ("judge", "1")]
