"""One process tells what another writes, line by line."""

import json
import math

from fleetrec.cli.follow import Follower
from fleetrec.train.events import Interval, PassDone, Place
from fleetrec.train.observers import JsonObserver


class Told:
    """Keeps what it is told."""

    def __init__(self):
        self.passes = []
        self.paths = []

    def step(self, place):
        raise AssertionError("steps are not written")

    def interval(self, interval):
        raise AssertionError("intervals stay in the worker's own log")

    def pass_done(self, done):
        self.passes.append(done)

    def saved(self, what, path, *, epoch):
        self.paths.append((what, str(path), epoch))


def make_done(**figures):
    return PassDone(
        kind="train",
        phase="learn",
        epoch="0",
        seconds=1.5,
        samples_per_s=20.0,
        figures=figures,
        tables={"t": {"rows": 3}},
    )


def make_interval():
    place = Place(kind="train", phase="learn", epoch=0, batch=1, step=1, samples=2, fraction=0.5)
    return Interval(
        place=place, seconds=1.0, samples_per_s=2.0, eta_s=1.0, figures={}, costs={}, tables={}
    )


def test_passes_and_what_was_saved_are_told_as_they_were_written(tmp_path):
    told = Told()
    follower = Follower(tmp_path / "metrics.jsonl", told)
    follower.look()  # nothing is there yet
    writer = JsonObserver(tmp_path / "metrics.jsonl")
    writer.interval(make_interval())
    writer.pass_done(make_done(AUC=0.75))
    follower.look()
    writer.saved("checkpoint", "s3://bucket/0", epoch=0)
    follower.look()
    follower.look()
    assert told.passes == [make_done(AUC=0.75)]
    assert told.paths == [("checkpoint", "s3://bucket/0", 0)]


def test_an_undefined_figure_is_undefined_again(tmp_path):
    told = Told()
    follower = Follower(tmp_path / "metrics.jsonl", told)
    JsonObserver(tmp_path / "metrics.jsonl").pass_done(make_done(AUC=math.nan))
    follower.look()
    assert math.isnan(told.passes[0].figures["AUC"])


def test_half_a_line_waits_for_its_end(tmp_path):
    path = tmp_path / "metrics.jsonl"
    told = Told()
    follower = Follower(path, told)
    line = json.dumps({"event": "saved", "what": "checkpoint", "path": "p", "epoch": 1})
    path.write_text(line[:20])
    follower.look()
    assert told.paths == []
    path.write_text(line + "\n")
    follower.look()
    assert told.paths == [("checkpoint", "p", 1)]


def test_what_was_there_before_is_not_told_again(tmp_path):
    path = tmp_path / "metrics.jsonl"
    JsonObserver(path).pass_done(make_done(AUC=0.5))
    told = Told()
    follower = Follower(path, told)
    JsonObserver(path).pass_done(make_done(AUC=0.6))
    follower.look()
    assert [done.figures for done in told.passes] == [{"AUC": 0.6}]
