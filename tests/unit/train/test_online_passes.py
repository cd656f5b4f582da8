"""Passes of an online run, read from its records."""

import pytest

from fleetrec.core.event_time import SECONDS_PER_DAY
from fleetrec.train.observers import JsonObserver
from fleetrec.train.online_passes import metric_keys, online_passes, passes_by_day
from fleetrec.train.records import read_records
from unit.train.making_passes import DAY, PASS_S, make_evaluated, make_table, make_trained

PER_DAY = SECONDS_PER_DAY // PASS_S


def records_of(tmp_path, *passes, time=1100.0):
    path = tmp_path / "metrics.jsonl"
    observer = JsonObserver(path, now=lambda: time)
    for done in passes:
        observer.pass_done(done)
    return list(read_records(path))


def test_a_pass_has_its_evaluation_and_its_training(tmp_path):
    table = {"t": make_table(5, created=5)}
    records = records_of(
        tmp_path, make_evaluated(0, AUC=0.6), make_trained(0, delay_s=40.0, tables=table, AUC=0.7)
    )
    (one,) = online_passes(records)
    assert (one.name, one.index, one.num_samples) == (f"{DAY}/0000", 0, 100)
    assert (one.evaluated["AUC"], one.trained["AUC"]) == (0.6, 0.7)
    assert (one.delay_s, one.arrived_at) == (40.0, 1060.0)
    assert (one.created, one.evicted) == ({"t": 5}, {"t": 0})


def test_of_a_pass_that_is_repeated_the_last_counts(tmp_path):
    def trained(index, created, **metrics):
        return make_trained(index, tables={"t": make_table(9, created=created)}, **metrics)

    records = records_of(
        tmp_path,
        trained(0, 10),
        make_evaluated(1, AUC=0.1),
        trained(1, 50),  # killed, and resumed from the first
        make_evaluated(1, AUC=0.2),
        trained(1, 30),
        trained(2, 31),
    )
    passes = online_passes(records)
    assert [one.created["t"] for one in passes] == [10, 20, 1]
    assert passes[1].evaluated["AUC"] == 0.2


def test_changes_of_the_first_pass_of_a_file_are_unknown(tmp_path):
    tables = {"t": make_table(9, created=90)}
    records = records_of(tmp_path, make_trained(7, tables=tables))
    (one,) = online_passes(records)
    assert one.created == {}


def test_days_have_metrics_of_all_their_samples(tmp_path):
    table = {"t": make_table(20, created=30, evicted=10)}
    more = {"t": make_table(25, created=40, evicted=15)}
    passes = [
        make_evaluated(0, SAMPLES=100.0, AUC=0.6, ACTUAL_CTR=0.2, PREDICTED_CTR=0.1, COPC=2.0),
        make_trained(0, tables=table),
        make_evaluated(1, SAMPLES=300.0, AUC=0.8, ACTUAL_CTR=0.1, PREDICTED_CTR=0.1, COPC=1.0),
        make_trained(1, tables=more, SAMPLES=300.0),
        make_evaluated(PER_DAY, AUC=0.9),
    ]
    first, second = passes_by_day(online_passes(records_of(tmp_path, *passes)))
    assert (first.name, len(first.passes), first.num_samples) == (DAY, 2, 400)
    assert (first.num_rows, first.num_created, first.num_evicted) == (25, 40, 15)
    metrics = first.metrics(["AUC", "COPC"])
    assert metrics["AUC"] == pytest.approx(0.75)
    assert metrics["COPC"] == pytest.approx((100 * 0.2 + 300 * 0.1) / (400 * 0.1))
    assert (second.name, second.num_rows, second.num_created) == ("20261119", None, None)


def test_metrics_that_no_pass_has_are_unknown(tmp_path):
    (day,) = passes_by_day(online_passes(records_of(tmp_path, make_trained(0))))
    assert day.metrics(["AUC", "COPC"]) == {"AUC": None, "COPC": None}
    assert metric_keys(day.passes, ["AUC"]) == []


def test_phases_are_counted_separately(tmp_path):
    records = records_of(
        tmp_path,
        make_trained(0, phase="a", tables={"t": make_table(1, created=1)}),
        make_trained(0, phase="b", tables={"t": make_table(7, created=7)}),
        make_trained(1, phase="a", tables={"t": make_table(3, created=3)}),
    )
    passes = online_passes(records)
    assert [(one.phase, one.created["t"]) for one in passes] == [("a", 1), ("b", 7), ("a", 2)]
    assert [day.phase for day in passes_by_day(passes)] == ["a", "b"]
