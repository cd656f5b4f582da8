"""Alarms of online runs, by the events that begin and end them."""

import dataclasses
import json
import math

import pytest

from fleetrec.config.online import AlarmOptions
from fleetrec.core.event_time import SECONDS_PER_DAY, day_time
from fleetrec.train.alarms import Alarm, AlarmObserver, log_alarm
from fleetrec.train.observers import JsonObserver
from fleetrec.train.records import read_records
from unit.train.making_passes import DAY, make_evaluated, make_trained

NOON = day_time(DAY) + SECONDS_PER_DAY // 2


class Watched:
    """An observer with all that it has reported."""

    def __init__(self, **options):
        self.changes = []
        self.observer = AlarmObserver(
            AlarmOptions(**options), now=lambda: 5.0, on_change=self.changes.append
        )

    def evaluate(self, *aucs, **metrics):
        for index, auc in enumerate(aucs):
            self.observer.pass_done(make_evaluated(index, AUC=auc, **metrics))

    def states(self):
        return [(one.name, "over" if one.is_over else "begins") for one in self.changes]


def test_an_auc_below_the_mean_of_the_last_day_begins_an_alarm_once():
    watched = Watched(auc_drop=0.02)
    watched.evaluate(0.75, 0.76, 0.74, 0.72, 0.71)
    (alarm,) = watched.changes
    assert alarm == Alarm(
        name="auc_drop",
        message="AUC is 0.72, 0.03 below the mean of the last 24 hours in pass 20261118/0015; "
        "allowed is 0.02",
        pass_name="20261118/0015",
        time=5.0,
    )
    assert watched.observer.active() == {"auc_drop": True}
    assert watched.observer.totals() == {"auc_drop": 1}


def test_an_alarm_is_over_when_the_metric_is_as_before():
    watched = Watched(auc_drop=0.02)
    watched.evaluate(0.75, 0.75, 0.75, 0.6, 0.75, 0.6)
    assert watched.states() == [
        ("auc_drop", "begins"),
        ("auc_drop", "over"),
        ("auc_drop", "begins"),
    ]
    assert watched.changes[1].pass_name == "20261118/0020"
    assert watched.observer.totals() == {"auc_drop": 2}


def test_a_drop_is_measured_from_three_passes_at_least():
    watched = Watched(auc_drop=0.02)
    watched.evaluate(0.75, 0.75, 0.5)
    assert watched.changes == []


def test_passes_of_more_than_a_day_ago_do_not_count():
    watched = Watched(auc_drop=0.02)
    for index, (at, auc) in enumerate(((0, 0.9), (100, 0.9), (200, 0.9), (NOON, 0.6))):
        watched.observer.pass_done(make_evaluated(index, event_time=at, AUC=auc))
    assert watched.changes == []


def test_passes_of_the_same_event_time_count_each():
    watched = Watched(auc_drop=0.02)
    for index, auc in enumerate((0.75, 0.75, 0.75, 0.5)):
        watched.observer.pass_done(make_evaluated(index, event_time=NOON, AUC=auc))
    assert watched.states() == [("auc_drop", "begins")]


def test_an_alarm_about_a_metric_that_a_model_does_not_have_is_named_once(caplog):
    watched = Watched(auc_drop=0.02, copc=(0.8, 1.2))
    without = {k: v for k, v in make_evaluated().metrics.items() if k != "AUC"}
    for _ in range(2):
        watched.observer.pass_done(dataclasses.replace(make_evaluated(), metrics=without))
    assert caplog.messages == ["alarm auc_drop never begins: phase learn has no metric AUC"]


def test_a_pass_that_is_repeated_after_a_kill_counts_once():
    watched = Watched(auc_drop=0.02)
    watched.observer.pass_done(make_evaluated(0, AUC=0.75))
    for _ in range(3):
        watched.observer.pass_done(make_evaluated(1, AUC=0.75))
    watched.observer.pass_done(make_evaluated(2, AUC=0.5))
    assert watched.changes == []


def test_an_undefined_auc_begins_and_ends_nothing():
    watched = Watched(auc_drop=0.02)
    watched.evaluate(0.75, 0.75, 0.75, math.nan, 0.6, math.nan)
    assert watched.states() == [("auc_drop", "begins")]


@pytest.mark.parametrize(
    ("copc", "begins"), [(0.79, True), (0.8, False), (1.2, False), (1.3, True)]
)
def test_copc_outside_of_its_range_begins_an_alarm(copc, begins):
    watched = Watched(copc=(0.8, 1.2))
    watched.evaluate(0.7, COPC=copc)
    assert watched.states() == ([("copc", "begins")] if begins else [])


def test_undefined_copc_changes_nothing():
    watched = Watched(copc=(0.8, 1.2))
    for value in (0.5, math.nan, 1.0):
        watched.evaluate(0.7, COPC=value)
    assert watched.states() == [("copc", "begins"), ("copc", "over")]
    assert watched.changes[0].message == "COPC is 0.5 in pass 20261118/0000; expected 0.8 to 1.2"


def test_every_task_is_watched():
    watched = Watched(copc=(0.8, 1.2))
    watched.evaluate(0.7, COPC=1.0, COPC_buy=2.0, COPC_like=0.1)
    assert "COPC_buy is 2, COPC_like is 0.1 in pass" in watched.changes[0].message


def test_an_alarm_is_over_when_no_phase_has_the_problem():
    watched = Watched(copc=(0.8, 1.2))
    for phase, copc in (("a", 2.0), ("b", 2.0), ("a", 1.0), ("b", 1.0)):
        watched.observer.pass_done(make_evaluated(phase=phase, COPC=copc))
    assert watched.states() == [("copc", "begins"), ("copc", "over")]


def test_no_data_for_a_while_begins_an_alarm_until_samples_have_come():
    watched = Watched(no_data_minutes=30)
    for seconds in (10.0, 1799.0, 1800.0, 1810.0):
        watched.observer.waiting("20261118/0005", seconds)
    assert watched.states() == [("no_data", "begins")]
    assert watched.changes[0].message == "no data of pass 20261118/0005 for 30 minutes"
    watched.observer.pass_done(make_trained(1, SAMPLES=0.0))  # a folder that was skipped
    watched.observer.waiting("20261118/0010", 1.0)
    assert watched.observer.active() == {"no_data": True}
    watched.observer.pass_done(make_evaluated(2))
    assert watched.states() == [("no_data", "begins"), ("no_data", "over")]


def test_a_pass_long_after_its_data_begins_an_alarm():
    watched = Watched(max_delay_minutes=60)
    for index, delay_s in enumerate((3600.0, 3601.0, None, 10.0)):
        watched.observer.pass_done(make_trained(index, delay_s=delay_s))
    assert watched.states() == [("max_delay", "begins"), ("max_delay", "over")]
    assert [one.pass_name for one in watched.changes] == ["20261118/0005", "20261118/0015"]


def test_alarms_that_are_not_asked_for_never_begin():
    watched = Watched()
    watched.evaluate(0.9, 0.9, 0.9, 0.1, COPC=9.0)
    watched.observer.waiting("20261118/0005", 1e9)
    watched.observer.pass_done(make_trained(delay_s=1e9))
    assert watched.changes == []
    assert watched.observer.active() == {}


def test_a_resumed_run_knows_the_passes_and_alarms_before(tmp_path):
    first = Watched(auc_drop=0.02, copc=(0.8, 1.2))
    path = tmp_path / "metrics.jsonl"
    writer = JsonObserver(path, now=lambda: 7.0)
    first.observer = AlarmObserver(
        AlarmOptions(auc_drop=0.02, copc=(0.8, 1.2)), now=lambda: 5.0, on_change=writer.alarm
    )
    for index in range(3):
        done = make_evaluated(index, COPC=2.0)
        writer.pass_done(done)
        first.observer.pass_done(done)
    second = Watched(auc_drop=0.02, copc=(0.8, 1.2))
    second.observer.restore(read_records(path))
    assert second.observer.active() == {"auc_drop": False, "copc": True}
    second.observer.pass_done(make_evaluated(3, COPC=2.0, AUC=0.6))
    assert second.states() == [("auc_drop", "begins")]
    second.observer.pass_done(make_evaluated(4, COPC=1.0, AUC=0.75))
    assert second.states()[1:] == [("copc", "over"), ("auc_drop", "over")]


def test_an_alarm_outlives_json(caplog):
    alarm = Alarm(name="copc", message="COPC is 2", pass_name="20261118/0000", time=5.0)
    again = Alarm.from_plain(json.loads(json.dumps(alarm.to_plain())))
    assert again == alarm
    log_alarm(again)
    log_alarm(Alarm(name="copc", message="", pass_name="p", time=5.0, is_over=True))
    lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert lines == [
        ("WARNING", "ALARM copc: COPC is 2"),
        ("WARNING", "ALARM copc is over: pass p"),
    ]
