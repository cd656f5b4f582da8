"""Jobs whose processes another launcher has started: what they leave behind, and who runs what."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from making import make_data, make_job, write_job
from making_pipelines import WIDE_AND_DEEP, model_config, write_data, write_pipeline
from multiprocess.launching import children_of, started, wait_until

pytestmark = pytest.mark.multiprocess

MODEL = model_config("FM", "fm { }", groups=WIDE_AND_DEEP)
PROGRAM = "from fleetrec.cli.main import main\nmain({verb!r})\n"
ADAM = """
optimizer_config {
  adam_optimizer { learning_rate { constant_learning_rate { learning_rate: 0.01 } } }
}
log_step_count_steps: 5
save_summary_steps: 5
"""


def fleetrec(folder, *arguments):
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )


def launch_ps(folder, verb, *arguments, log_dir="logs"):
    (folder / "program.py").write_text(PROGRAM.format(verb=verb))
    processes = ("--worker_num", "2", "--server_num", "1", "--log_dir", log_dir)
    return fleetrec(folder, "fleetrec.launch_ps", *processes, "program.py", *arguments)


def torchrun(folder, verb, *arguments):
    (folder / "program.py").write_text(PROGRAM.format(verb=verb))
    ranks = ("--standalone", "--nproc-per-node", "2")
    return fleetrec(folder, "torch.distributed.run", *ranks, "program.py", *arguments)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"), num_train=1280, num_eval=200)


def make_pipeline(folder, paths, *, train_config=ADAM):
    text = write_pipeline(folder, MODEL, paths=paths, num_steps=20, train_config=train_config)
    text.write_text(text.read_text().replace("log_step_count_steps: 50", "", 1))
    return text


@pytest.fixture(scope="module")
def with_servers(tmp_path_factory, paths):
    """A pipeline that two workers and a server have trained, started by launch_ps."""
    folder = tmp_path_factory.mktemp("servers")
    pipeline = make_pipeline(folder, paths)
    done = launch_ps(folder, "train-eval", "--pipeline_config_path", str(pipeline))
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_a_model_folder_can_be_evaluated_whoever_started_the_processes(with_servers):
    model = with_servers / "model"
    done = fleetrec(with_servers, "fleetrec.eval", "--model_dir", str(model))
    assert done.returncode == 0, done.stderr
    assert json.loads((model / "eval_result.txt").read_text())["global_step"] == 10
    assert "num_steps: 20" in (model / "pipeline.config").read_text()


def test_a_used_model_folder_is_refused_whoever_started_the_processes(with_servers):
    pipeline = with_servers / "pipeline.config"
    again = ("--pipeline_config_path", str(pipeline))
    done = launch_ps(with_servers, "train-eval", *again, log_dir="again")
    assert done.returncode == 2, done.stdout + done.stderr
    assert re.search(r"model\.ckpt-10 of an earlier run.*--continue_train", done.stderr)


def test_curves_and_learning_rates_are_there_with_servers_too(with_servers):
    event_accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    events = event_accumulator.EventAccumulator(str(with_servers / "model"))
    events.Reload()
    assert [event.step for event in events.Scalars("LOSS")] == [5, 10]
    log = (with_servers / "logs/workerlog.0").read_text()
    assert re.search(r"global step 5: lr = 0\.01, .*total_loss = ", log)


def test_ranks_of_torchrun_leave_the_same_files(tmp_path, paths):
    strategy = ADAM + "train_distribute: CollectiveAllReduceStrategy"
    pipeline = make_pipeline(tmp_path, paths, train_config=strategy)
    arguments = ("train-eval", "--pipeline_config_path", str(pipeline))
    done = torchrun(tmp_path, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "model/pipeline.config").is_file()
    assert (tmp_path / "model/report.html").is_file()
    done = torchrun(tmp_path, *arguments)
    assert done.returncode != 0
    assert "of an earlier run" in done.stdout + done.stderr


def test_a_runner_that_is_one_process_is_run_by_the_first_worker_only(tmp_path):
    job = make_job(make_data(tmp_path / "data", num_samples=64), batch_size=16, epochs=1)
    job["runner"][0] |= {"class": "cluster_train", "distribute_strategy": "sync"}
    job["mode"] = ["train", "infer"]
    write_job(job, tmp_path / "config.yaml")
    done = launch_ps(tmp_path, "run", "-m", "config.yaml", "--log-dir", "runs")
    assert done.returncode == 0, done.stdout + done.stderr
    logs = {path.name: path.read_text() for path in (tmp_path / "logs").glob("*log.*")}
    evaluated = [name for name, text in logs.items() if "Infer judge of epoch 0 done" in text]
    assert evaluated == ["workerlog.0"]
    assert (tmp_path / f"runs/{tmp_path.name}.infer/report.html").is_file()


@pytest.mark.cold
def test_the_supervisor_of_a_run_loads_no_torch(tmp_path):
    job = make_job(make_data(tmp_path / "data", num_samples=64), batch_size=16, epochs=1)
    job["runner"][0] |= {"class": "local_cluster_train", "worker_num": 1, "server_num": 1}
    write_job(job, tmp_path / "config.yaml")
    command = [sys.executable, "-m", "fleetrec", "run", "-m", "config.yaml"]
    with started(command, tmp_path) as supervisor:
        wait_until(
            lambda: any("TRAINING_ROLE" in env for env in children_of(supervisor).values()),
            "the processes of the run",
        )
        assert "libtorch" not in Path(f"/proc/{supervisor.pid}/maps").read_text()
        output, _ = supervisor.communicate(timeout=250)
    assert supervisor.returncode == 0, output
    assert "Runner train Finish" in output


def test_supervised_pipelines_log_in_their_own_words(tmp_path, paths):
    pipeline = make_pipeline(tmp_path, paths)
    processes = ("--num_workers", "2", "--num_servers", "1")
    done = fleetrec(
        tmp_path, "fleetrec.train_eval", "--pipeline_config_path", str(pipeline), *processes
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"eval of model\.ckpt-10: .*auc = ", done.stdout)
    assert "Infer eval of epoch" not in done.stdout
    assert (tmp_path / "model/pipeline.config").is_file()
    assert list((tmp_path / "model").glob("events.out.tfevents.*"))
