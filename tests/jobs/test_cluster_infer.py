"""Runners of class local_cluster_infer: several processes judge what one process would."""

import json
import os
import re
import signal
from pathlib import Path

import pytest

from jobs.test_cluster_run import processes_of, run_job, running_job
from making import make_data, make_job, run, write_job
from multiprocess.launching import wait_until

pytestmark = pytest.mark.multiprocess

NUM_SAMPLES = 1600


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A job whose two checkpoints one process has trained and judged."""
    folder = tmp_path_factory.mktemp("trained")
    job = make_job(make_data(folder / "data", num_samples=NUM_SAMPLES), epochs=2, batch_size=16)
    keys = {"class": "local_cluster_infer", "server_num": 2, "print_interval": 1}
    several = {**job["runner"][1], "name": "several", "runner_result_dump_path": "dump/of", **keys}
    job["runner"].append(several)
    job["mode"] = ["train", "infer"]
    write_job(job, folder / "config.yaml")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run(folder / "config.yaml")
    return folder


def passes_of(folder, runner):
    """What was found of each checkpoint."""
    (path,) = folder.glob(f"logs/*.{runner}/metrics.jsonl")
    records = map(json.loads, path.read_text().splitlines())
    return {one["epoch"]: one["metrics"] for one in records if one["event"] == "pass"}


def judge(trained, folder, num_workers):
    folder.mkdir(exist_ok=True)
    paths = ("-o", f"runner.several.init_model_path={trained}/ckpt", "-o", "mode=several")
    return (
        "-m",
        f"{trained}/config.yaml",
        *paths,
        "-o",
        f"runner.several.worker_num={num_workers}",
    )


def assert_equal(ours, theirs):
    assert ours.keys() == theirs.keys() == {"0", "1"}
    for epoch, figures in theirs.items():
        assert ours[epoch]["SAMPLES"] == NUM_SAMPLES
        assert ours[epoch]["AUC"] == figures["AUC"]
        assert ours[epoch] == pytest.approx(figures, abs=1e-6)


def num_dumped(path):
    return sum(len(batch["click"]) for batch in json.loads(path.read_text()))


@pytest.mark.parametrize("num_workers", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_figures_are_those_of_one_process(tmp_path, trained, num_workers):
    done = run_job(tmp_path, *judge(trained, tmp_path, num_workers))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"Infer judge of epoch 1 done.*SAMPLES=\[1600\]", done.stdout)
    assert_equal(passes_of(tmp_path, "several"), passes_of(trained, "infer"))
    names = {f"of_worker_{i}_{epoch}" for i in range(num_workers) for epoch in (0, 1)}
    dumps = list((tmp_path / "dump").iterdir())
    assert {path.name for path in dumps} == names
    assert sum(map(num_dumped, dumps)) == 2 * NUM_SAMPLES


@pytest.mark.parametrize(("victim", "epoch"), [(0, 0), (1, 1)])
def test_a_killed_worker_judges_its_share_again(tmp_path, trained, victim, epoch):
    def is_at_work():
        text = text_of(tmp_path / f"logs/worker.{victim}")
        return "batch: 3," in text.partition(f"ckpt/{epoch}\n")[2]

    with running_job(tmp_path, *judge(trained, tmp_path, 2)) as supervisor:
        wait_until(is_at_work, "some batches of a checkpoint")
        os.kill(processes_of(supervisor)["worker", victim], signal.SIGKILL)
        output, _ = supervisor.communicate(timeout=300)
    assert supervisor.returncode == 0, output
    assert f"worker.{victim} was killed by SIGKILL" in output
    assert_equal(passes_of(tmp_path, "several"), passes_of(trained, "infer"))
    assert sum(map(num_dumped, (tmp_path / "dump").glob("[!.]*"))) == 2 * NUM_SAMPLES


def test_a_wrong_checkpoint_ends_the_job_in_one_line(tmp_path, trained):
    arguments = judge(trained, tmp_path, 2)
    done = run_job(tmp_path, *arguments, "-o", "runner.several.init_model_path=nowhere")
    assert done.returncode == 1
    assert "nowhere: no such checkpoint" in done.stderr
    assert "Traceback" not in done.stderr


def text_of(path: Path):
    return path.read_text() if path.is_file() else ""
