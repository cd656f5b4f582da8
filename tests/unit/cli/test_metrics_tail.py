"""One process reports what another writes, line by line."""

import dataclasses
import json
import math

from fleetrec.cli.metrics_tail import MetricsTail
from fleetrec.train.alarms import Alarm
from fleetrec.train.events import Interval, PassDone, StepInfo
from fleetrec.train.observers import JsonObserver


class Recorder:
    """Keeps what it is seen."""

    def __init__(self):
        self.passes = []
        self.paths = []

    def step(self, info):
        raise AssertionError("steps are not written")

    def interval(self, interval):
        raise AssertionError("intervals stay in the worker's own log")

    def pass_done(self, done):
        self.passes.append(done)

    def saved(self, what, url, *, epoch):
        self.paths.append((what, url, epoch))


def make_done(**metrics):
    return PassDone(
        kind="train",
        phase="learn",
        epoch="0",
        seconds=1.5,
        samples_per_s=20.0,
        metrics=metrics,
        tables={"t": {"rows": 3}},
    )


def make_interval():
    info = StepInfo(kind="train", phase="learn", epoch=0, batch=1, step=1, samples=2, fraction=0.5)
    return Interval(
        info=info, seconds=1.0, samples_per_s=2.0, eta_s=1.0, metrics={}, costs={}, tables={}
    )


def test_passes_and_saved_paths_are_reported_as_they_were_written(tmp_path):
    seen = Recorder()
    tail = MetricsTail(tmp_path / "metrics.jsonl", seen)
    tail.poll()  # nothing is there yet
    writer = JsonObserver(tmp_path / "metrics.jsonl")
    writer.interval(make_interval())
    writer.pass_done(make_done(AUC=0.75))
    tail.poll()
    writer.saved("checkpoint", str(tmp_path / "0"), epoch=0)
    tail.poll()
    tail.poll()
    assert seen.passes == [make_done(AUC=0.75)]
    assert seen.paths == [("checkpoint", str(tmp_path / "0"), 0)]


def test_an_undefined_metric_is_undefined_again(tmp_path):
    seen = Recorder()
    tail = MetricsTail(tmp_path / "metrics.jsonl", seen)
    JsonObserver(tmp_path / "metrics.jsonl").pass_done(make_done(AUC=math.nan))
    tail.poll()
    assert math.isnan(seen.passes[0].metrics["AUC"])


def test_passes_of_online_runs_and_alarms_are_reported(tmp_path, caplog):
    seen = Recorder()
    tail = MetricsTail(tmp_path / "metrics.jsonl", seen)
    writer = JsonObserver(tmp_path / "metrics.jsonl", now=lambda: 1100.0)
    done = dataclasses.replace(make_done(AUC=0.5), event_time=300, index=1, delay_s=9.5)
    writer.pass_done(done)
    writer.alarm(Alarm(name="copc", message="COPC is 2", pass_name="p", time=1.0))
    tail.poll()
    assert seen.passes == [done]
    assert caplog.messages == ["ALARM copc: COPC is 2"]


def test_a_line_of_a_killed_process_is_skipped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    seen = Recorder()
    tail = MetricsTail(path, seen)
    path.write_text('{"event": "pass", "ki')
    tail.poll()
    JsonObserver(path).pass_done(make_done(AUC=0.5))
    tail.poll()
    assert seen.passes == [make_done(AUC=0.5)]


def test_half_a_line_waits_for_its_end(tmp_path):
    path = tmp_path / "metrics.jsonl"
    seen = Recorder()
    tail = MetricsTail(path, seen)
    line = json.dumps({"event": "saved", "what": "checkpoint", "path": "p", "epoch": 1})
    path.write_text(line[:20])
    tail.poll()
    assert seen.paths == []
    path.write_text(line + "\n")
    tail.poll()
    assert seen.paths == [("checkpoint", "p", 1)]


def test_what_was_there_before_is_not_reported_again(tmp_path):
    path = tmp_path / "metrics.jsonl"
    JsonObserver(path).pass_done(make_done(AUC=0.5))
    seen = Recorder()
    tail = MetricsTail(path, seen)
    JsonObserver(path).pass_done(make_done(AUC=0.6))
    tail.poll()
    assert [done.metrics for done in seen.passes] == [{"AUC": 0.6}]
