"""Runs that follow data as it arrives, as whole commands."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fleetrec.checkpoint.folder import open_folder
from fleetrec.cli.online import online_command
from fleetrec.cli.run import RunRequest
from fleetrec.core.env import environment_with
from fleetrec.core.errors import ConfigError, DataError
from making import columns_of, make_data, make_job, tables_of, tensors_of, write_job
from making_online import DAYS, NUM_SAMPLES, make_days, make_split, write_online_job

DEADLINE_S = 120.0
NEXT_DAY = "20261118"
RUN = "logs/{}.online"


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def config(tmp_path):
    return write_online_job(tmp_path, make_days(tmp_path / "data"))


def online(config, *overrides):
    online_command(RunRequest(model=str(config), overrides=overrides))


def passes(tmp_path, kind="train"):
    """Return the metrics of all passes by name; the last report of a pass counts."""
    path = tmp_path / RUN.format(tmp_path.name) / "metrics.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return {r["epoch"]: r["metrics"] for r in records if r["event"] == "pass" and r["kind"] == kind}


def shows(checkpoint):
    """Return how often every sample was trained, by the id that only it has."""
    found = {}
    for _, _, stored in tables_of(checkpoint):
        columns = columns_of(stored)
        pairs = zip(columns["ids"].tolist(), columns["shows"].tolist(), strict=True)
        found |= {number: count for number, count in pairs if number >= 1_000_000}
    return found


def test_every_pass_is_evaluated_trained_and_saved(config, tmp_path):
    online(config, "runner.online.gauc_slot=2")
    names = [f"{day}/{time}" for day in DAYS for time in ("0000", "0800", "1600")]
    assert list(passes(tmp_path)) == names
    evaluated = passes(tmp_path, "infer")
    assert list(evaluated) == names
    assert evaluated[names[-1]]["AUC"] > evaluated[names[0]]["AUC"] + 0.1
    assert {"GAUC", "COPC", "LOGLOSS"} <= evaluated[names[-1]].keys()
    last = open_folder(f"model/{NEXT_DAY}/0", kind="checkpoint")
    assert (last.meta["progress"]["pass_index"], last.meta["progress"]["step"]) == (6, 36)
    kinds = {
        name: open_folder(f"model/{name}", kind="checkpoint").meta["tables"]["learn"]
        for name in (f"{DAYS[0]}/2", f"{DAYS[1]}/0", f"{DAYS[1]}/1")
    }
    assert [next(iter(tables.values()))["kind"] for tables in kinds.values()] == [
        "delta",
        "base",
        "delta",
    ]
    assert set(shows(f"model/{NEXT_DAY}/0").values()) == {1}
    assert len(shows(f"model/{NEXT_DAY}/0")) == 6 * NUM_SAMPLES


def test_a_run_continues_with_the_days_that_have_come(config, tmp_path):
    online(config, f"runner.online.end_day={DAYS[0]}")
    online(config)
    again = tensors_of(f"model/{NEXT_DAY}/0")
    shutil.rmtree("model")
    shutil.rmtree("logs")
    online(config)
    assert again == tensors_of(f"model/{NEXT_DAY}/0")
    assert len(passes(tmp_path)) == 6


def test_what_is_finished_is_not_trained_again(config, caplog):
    online(config)
    before = tensors_of(f"model/{NEXT_DAY}/0")
    caplog.set_level("INFO")
    online(config)
    assert "all 6 passes are done already" in caplog.text
    assert tensors_of(f"model/{NEXT_DAY}/0") == before


@pytest.mark.parametrize("kind", ["DataLoader", "QueueDataset"])
def test_data_sets_that_are_not_kept_in_memory_are_followed_too(config, kind):
    online(config, f"dataset.data.type={kind}")
    assert len(shows(f"model/{NEXT_DAY}/0")) == 6 * NUM_SAMPLES


def test_rows_are_evicted_at_the_end_of_a_day_by_their_last_day(config, tmp_path):
    online(config, "hyper_parameters.eviction={max_unseen_days: 1}")
    assert len(shows(f"model/{DAYS[1]}/0")) == 3 * NUM_SAMPLES
    assert len(shows(f"model/{NEXT_DAY}/0")) == 6 * NUM_SAMPLES  # unseen for one day, not more
    make_split(tmp_path / "data" / NEXT_DAY / "0000", seed=90)
    for name in ("0800", "1600"):
        make_split(tmp_path / "data" / NEXT_DAY / name, seed=91)
    more = ("hyper_parameters.eviction={max_unseen_days: 1}", f"runner.online.end_day={NEXT_DAY}")
    online(config, *more)
    assert len(shows("model/20261119/0")) == 3 * NUM_SAMPLES + 2 * NUM_SAMPLES


def test_other_data_may_be_evaluated(config, tmp_path):
    make_days(tmp_path / "other")
    for path in (tmp_path / "other").rglob("part-0"):
        path.unlink()
    online(config, f"runner.online.infer_data_dir={tmp_path / 'other'}")
    assert {one["SAMPLES"] for one in passes(tmp_path, "infer").values()} == {NUM_SAMPLES / 2}
    assert {one["SAMPLES"] for one in passes(tmp_path).values()} == {NUM_SAMPLES}


def test_a_pass_without_positive_labels_has_no_auc(config, tmp_path):
    for path in (tmp_path / "data" / DAYS[0] / "0800").glob("part-*"):
        path.write_text(path.read_text().replace("click:1", "click:0"))
    online(config)
    metrics = passes(tmp_path, "infer")[f"{DAYS[0]}/0800"]
    assert metrics["AUC"] is None
    assert metrics["LOGLOSS"] > 0
    assert len(passes(tmp_path)) == 6


def test_a_pass_may_have_no_data(config, tmp_path):
    for path in (tmp_path / "data" / DAYS[0] / "0800").glob("part-*"):
        path.unlink()
    online(config)
    assert len(shows(f"model/{NEXT_DAY}/0")) == 5 * NUM_SAMPLES


def test_a_file_that_vanishes_is_named_and_nothing_is_lost(config, tmp_path):
    path = tmp_path / "data" / DAYS[0] / "0800" / "part-1"
    content = path.read_bytes()
    path.with_suffix(".gz").write_bytes(content)  # not gzip
    path.unlink()
    with pytest.raises(DataError, match=r"part-1\.gz"):
        online(config)
    path.with_suffix(".gz").unlink()
    path.write_bytes(content)
    online(config)
    assert len(shows(f"model/{NEXT_DAY}/0")) == 6 * NUM_SAMPLES
    assert set(shows(f"model/{NEXT_DAY}/0").values()) == {1}


def test_a_job_without_an_online_runner_is_refused(tmp_path):
    config = write_job(make_job(make_data(tmp_path / "d", num_samples=9)), tmp_path / "x.yaml")
    with pytest.raises(ConfigError, match="no runner trains online"):
        online(config)


def start(config, tmp_path, *overrides):
    words = [word for text in overrides for word in ("-o", text)]
    return subprocess.Popen(
        [sys.executable, "-m", "fleetrec.online", "-m", str(config), *words],
        cwd=tmp_path,
        env=environment_with({}, unless_set={"OMP_NUM_THREADS": "1"}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.multiprocess
def test_data_is_followed_as_it_appears(tmp_path):
    config = write_online_job(tmp_path, tmp_path / "data", end_day=DAYS[0])
    with start(config, tmp_path) as process:
        for number, name in enumerate(("0000", "0800", "1600"), start=1):
            make_split(tmp_path / "data" / DAYS[0] / name, seed=number)
            folder = tmp_path / "model" / (f"{DAYS[0]}/{number}" if number < 3 else f"{DAYS[1]}/0")
            wait_for(folder / "MANIFEST.json", process)
        output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, output


@pytest.mark.multiprocess
def test_ctrl_c_while_it_waits_ends_the_run_and_it_continues(tmp_path):
    config = write_online_job(
        tmp_path, tmp_path / "data", checkpoint_per_pass=10, save_delta_frequency=10
    )
    make_split(tmp_path / "data" / DAYS[0] / "0000", seed=0)
    with start(config, tmp_path) as process:
        wait_for(tmp_path / RUN.format(tmp_path.name) / "metrics.jsonl", process)
        while not passes(tmp_path):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130, output
    assert list((tmp_path / "model" / DAYS[0]).glob("stop-*")), output
    make_days(tmp_path / "data")
    online(config)
    assert len(shows(f"model/{NEXT_DAY}/0")) == 6 * NUM_SAMPLES
    assert set(shows(f"model/{NEXT_DAY}/0").values()) == {1}


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not path.exists():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.01)


CLUSTERS = {
    "servers": ("worker_num=2", "server_num=2", "distribute_strategy=sync"),
    "ranks": ("worker_num=2", "fleet_mode=collective"),
}


@pytest.mark.multiprocess
@pytest.mark.parametrize("kind", CLUSTERS)
def test_several_processes_follow_together(config, tmp_path, kind):
    online(config, *(f"runner.online.{key}" for key in CLUSTERS[kind]))
    assert len(shows(f"model/{NEXT_DAY}/0")) == 6 * NUM_SAMPLES
    assert set(shows(f"model/{NEXT_DAY}/0").values()) == {1}
    assert {one["SAMPLES"] for one in passes(tmp_path, "infer").values()} == {NUM_SAMPLES}
