"""Passes that a class of the user asks for."""

import os
import shutil

import pytest

from fleetrec.cli.online import online_command
from fleetrec.cli.run import RunRequest
from fleetrec.core.errors import ConfigError, DataError, ModelError
from fleetrec.train.records import read_records
from making import tensors_of, write_job
from making_online import DAYS, make_days, make_online_job

LAST = "model/20261118/0"
RUNNER = """
class Runner:
    def run(self, context):
        for day in context.settings["hyper_parameters.days"].split():
            for number, name in enumerate(("0000", "0800", "1600"), start=1):
                context.train(
                    f"data/{day}/{name}/part-*", day=day, number=number, ends_day=number == 3
                )
"""
SCHEDULE = (
    "train_data_dir",
    "start_day",
    "end_day",
    "split_interval",
    "data_donefile",
    "data_sleep_second",
)


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def config(tmp_path):
    (tmp_path / "runner.py").write_text(
        RUNNER.replace("hyper_parameters.days", "runner.online.name")
    )
    return write_config(tmp_path)


def write_config(tmp_path, **runner):
    make_days(tmp_path / "data")
    job = make_online_job(tmp_path / "data", **runner)
    for key in SCHEDULE:
        del job["runner"][0][key]
    job["runner"][0] |= {"runner_class_path": "runner.py"}
    return write_job(job, tmp_path / "config.yaml")


def write_runner(tmp_path, days=DAYS, *, body=""):
    text = RUNNER.replace('context.settings["hyper_parameters.days"].split()', repr(days))
    (tmp_path / "runner.py").write_text(text + body)


def online(config, *overrides):
    online_command(RunRequest(model=str(config), overrides=overrides))


def test_the_program_says_what_is_trained_and_when_a_day_ends(config, tmp_path):
    write_runner(tmp_path)
    online(config)
    own = tensors_of(LAST)
    for name in ("model", "logs"):
        shutil.rmtree(name)
    online(write_job(make_online_job(tmp_path / "data"), tmp_path / "scheduled.yaml"))
    scheduled = tensors_of(LAST)
    times = [name for name in own if "last_seen" in name]  # within a day they have one time
    assert {k: v for k, v in own.items() if k not in times} == {
        k: v for k, v in scheduled.items() if k not in times
    }


def test_the_delay_of_a_pass_counts_from_its_newest_file(config, tmp_path):
    write_runner(tmp_path)
    newest = tmp_path / "data" / DAYS[0] / "0000" / "part-1"
    os.utime(newest, (newest.stat().st_atime, newest.stat().st_mtime + 1e6))
    online(config)
    records = read_records(tmp_path / "logs" / f"{tmp_path.name}.online" / "metrics.jsonl")
    delays = [r["delay_s"] for r in records if r["event"] == "pass" and r["kind"] == "train"]
    assert delays[0] == 0.0  # its file is from the future
    assert all(delay > 0 for delay in delays[1:])


def test_a_restarted_program_skips_what_was_trained(config, tmp_path):
    write_runner(
        tmp_path, body="                if day == '20261117': raise ValueError('broken')\n"
    )
    with pytest.raises(ModelError, match=r"runner\.py:\d+: ValueError: broken"):
        online(config)
    write_runner(tmp_path)
    online(config)
    resumed = tensors_of(LAST)
    for name in ("model", "logs"):
        shutil.rmtree(name)
    online(config)
    assert tensors_of(LAST) == resumed


def test_the_program_reads_the_job_file(config):
    with pytest.raises(DataError, match="expected a day such as 20261118, got 'online'"):
        online(config)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("class Other: pass", r"runner\.py: expected a class Runner with a method run"),
        ("class Runner: pass", r"runner\.py: expected a class Runner with a method run"),
        ("import nothing_of_this_name", r"runner\.py:1: ModuleNotFoundError"),
        ("class Runner(:", r"runner\.py:1: SyntaxError"),
    ],
)
def test_what_is_wrong_with_the_file_is_said(config, tmp_path, text, problem):
    (tmp_path / "runner.py").write_text(text)
    with pytest.raises(ModelError, match=problem):
        online(config)


def test_a_schedule_and_a_program_exclude_each_other(config):
    with pytest.raises(ConfigError, match="start_day: is not for a runner with runner_class_path"):
        online(config, "runner.online.start_day=20261116")
    with pytest.raises(ConfigError, match=r"runner_class_path: no such file: nothing\.py"):
        online(config, "runner.online.runner_class_path=nothing.py")
