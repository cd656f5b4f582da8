"""Curves of online runs, as TensorBoard reads them."""

import math

import pytest

from fleetrec.config.job import RunOptions
from fleetrec.config.online import FollowOptions, OnlineOptions
from fleetrec.train.summaries import open_summaries
from unit.train.making_passes import make_evaluated, make_table, make_trained

accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


def make_run():
    follow = FollowOptions(folders=("data",), start_day="20261118")
    online = OnlineOptions(follow=follow, save_path="model")
    return RunOptions(name="online", kind="train", phases=(), online=online)


def read(folder):
    """Return (wall time, step, value) of every curve."""
    events = accumulator.EventAccumulator(str(folder)).Reload()
    return {
        tag: [(one.wall_time, one.step, pytest.approx(one.value)) for one in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


def test_curves_of_an_online_run_are_over_event_time(tmp_path):
    passes = [make_evaluated(3), make_evaluated(4, AUC=math.nan)]
    table = make_table(8, created=10, evicted=2, candidates=1)
    trained = make_trained(4, delay_s=90.0, tables={"t": table})
    with open_summaries(tmp_path, make_run()) as (observer,):
        for done in (*passes, trained):
            observer.pass_done(done)
    curves = read(tmp_path)
    first, second = (float(done.event_time) for done in passes)
    assert curves["eval/AUC"] == [(first, 3, 0.75)]  # undefined in the second
    assert curves["eval/COPC"] == [(first, 3, 0.8), (second, 4, 0.8)]
    assert {"eval/GAUC", "eval/LOGLOSS"} <= curves.keys()
    assert curves["train/LOSS"] == [(second, 4, 0.5)]
    assert curves["delay_s"] == [(second, 4, 90.0)]
    values = {name: curves[f"table/t/{name}"][0][2] for name in ("rows", "created", "evicted")}
    assert values == {"rows": 8.0, "created": 10.0, "evicted": 2.0}
    assert curves["table/t/waiting"] == [(second, 4, 1.0)]


def test_a_yaml_run_of_epochs_has_no_curves(tmp_path):
    with open_summaries(tmp_path, RunOptions(name="run", kind="train", phases=())) as observers:
        assert observers == ()
    assert list(tmp_path.iterdir()) == []
