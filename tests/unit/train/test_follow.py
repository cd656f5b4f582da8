"""Passes over folders of days."""

import logging

import pytest
import torch

from fleetrec.config.online import FollowOptions
from fleetrec.core.cursor import Cursor
from fleetrec.core.errors import DataError
from fleetrec.core.event_time import day_time
from fleetrec.core.progress import Progress
from fleetrec.parallel.solo import SoloGroup
from fleetrec.train.context import StopRequestedError
from fleetrec.train.follow import Follow
from fleetrec.train.pass_log import PassLog
from fleetrec.train.waiting import Waiting
from making_online import DAYS, DONE, SPLIT_MINUTES, make_days, make_split


class Clock:
    """Time that passes only while the plan sleeps; it may do something at some moment."""

    def __init__(self, **events):
        self.now = 0.0
        self._events = sorted((int(at.removeprefix("at_")), act) for at, act in events.items())

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        while self._events and self._events[0][0] <= self.now:
            self._events.pop(0)[1]()


def make_plan(tmp_path, *, clock=None, should_stop=lambda: False, on_waiting=None, **options):
    clock = clock or Clock()
    given = {
        "folders": [str(tmp_path / "data")],
        "start_day": DAYS[0],
        "end_day": DAYS[-1],
        "split_minutes": SPLIT_MINUTES,
        "done_file": DONE,
        "poll_s": 5,
    }
    return Follow(
        FollowOptions(**{**given, **options}),
        ["learn"],
        PassLog(str(tmp_path / "model")),
        SoloGroup(torch.device("cpu")),
        Waiting(
            clock=clock,
            sleep=clock.sleep,
            should_stop=should_stop,
            on_waiting=on_waiting or (lambda *_: None),
        ),
    )


def at(index, *, cursor=None):
    return Progress(pass_index=index, cursor=cursor)


def names(spec):
    return [file.name for file in spec.files["learn"]]


def test_passes_follow_the_days(tmp_path):
    make_days(tmp_path / "data")
    plan = make_plan(tmp_path)
    specs = [plan.next(at(index)) for index in range(6)]
    assert [spec.name for spec in specs] == [
        f"{day}/{time}" for day in DAYS for time in ("0000", "0800", "1600")
    ]
    assert [(spec.day, spec.number) for spec in specs[2:4]] == [(DAYS[0], 3), (DAYS[1], 1)]
    assert [spec.ends_day for spec in specs] == [False, False, True] * 2
    assert specs[4].event_time == day_time(DAYS[1]) + 8 * 3600
    assert specs[4].eviction_time == day_time(DAYS[1])
    assert plan.next(at(6)) is None


def test_a_pass_may_be_several_folders(tmp_path):
    make_days(tmp_path / "data")
    spec = make_plan(tmp_path, splits_per_pass=3).next(at(1))
    assert (spec.name, spec.number, spec.ends_day) == (f"{DAYS[1]}/0000", 1, True)
    assert len(spec.files["learn"]) == 6


def test_a_plan_waits_for_the_done_file(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    folder = make_split(tmp_path / "data" / DAYS[0] / "0000", seed=0, done=False)
    waited = []
    plan = make_plan(
        tmp_path,
        clock=Clock(at_130=lambda: (folder / DONE).write_text("")),
        on_waiting=lambda name, seconds: waited.append((name, seconds)),
    )
    assert len(names(plan.next(at(0)))) == 2
    assert waited[-1][0] == f"{DAYS[0]}/0000"
    assert 120 <= waited[-1][1] <= 130
    lines = [record.message for record in caplog.records]
    assert len(lines) == 3  # at once, and every minute
    assert (
        lines[0]
        == f"waiting for pass {DAYS[0]}/0000 (0 s): {folder} has 2 files, but no {DONE} yet"
    )


def test_a_stop_ends_the_waiting(tmp_path):
    plan = make_plan(tmp_path, should_stop=lambda: True)
    with pytest.raises(StopRequestedError):
        plan.next(at(0))


def test_data_that_never_comes_ends_the_run_or_is_skipped(tmp_path, caplog):
    make_split(tmp_path / "data" / DAYS[0] / "0000", seed=0, done=False)
    with pytest.raises(DataError, match=r"after 60 s .data_timeout_second.; start the run again"):
        make_plan(tmp_path, timeout_s=60).next(at(0))
    spec = make_plan(tmp_path, timeout_s=60, on_timeout="skip").next(at(0))
    assert len(names(spec)) == 2
    assert "trained with what is there: 2 files" in caplog.text


def test_a_begun_pass_is_the_same_after_a_restart(tmp_path):
    make_days(tmp_path / "data")
    spec = make_plan(tmp_path).next(at(1))
    (tmp_path / "data" / DAYS[0] / "0800" / "part-2").write_text("click:1\n")  # late
    plan = make_plan(tmp_path)
    assert plan.known(1) == spec
    assert plan.known(2) is None
    assert plan.next(at(1)) == spec


def test_a_pass_whose_files_have_changed_starts_again(tmp_path, caplog):
    make_days(tmp_path / "data")
    spec = make_plan(tmp_path).next(at(0))
    path = tmp_path / "data" / DAYS[0] / "0000" / "part-0"
    path.write_text("click:1\n")
    with pytest.raises(DataError, match="was interrupted, and a file of it has changed since"):
        make_plan(tmp_path).next(at(0, cursor=Cursor(samples=4)))
    again = make_plan(tmp_path).next(at(0))
    assert again.fingerprint != spec.fingerprint
    assert "starts again with the files that are there now" in caplog.text
    path.unlink()
    assert len(names(make_plan(tmp_path).next(at(0)))) == 1
    assert f"{path} is gone" in caplog.text


def late_file(tmp_path):
    path = tmp_path / "data" / DAYS[0] / "0000" / "part-7"
    path.write_text("click:1\n")
    return f"{DAYS[0]}/0000/part-7"


def test_late_files_are_trained_with_the_next_pass(tmp_path, caplog):
    make_days(tmp_path / "data")
    plan = make_plan(tmp_path, late_minutes=24 * 60)
    plan.next(at(0))
    name = late_file(tmp_path)
    assert names(plan.next(at(1)))[0] == name
    assert f"late file of pass {DAYS[0]}/0000" in caplog.text
    assert name not in names(plan.next(at(2)))  # once
    assert name not in names(make_plan(tmp_path, late_minutes=24 * 60).next(at(3)))


def test_late_files_may_be_skipped(tmp_path, caplog):
    make_days(tmp_path / "data")
    plan = make_plan(tmp_path, late_minutes=24 * 60, late_files="skip")
    plan.next(at(0))
    name = late_file(tmp_path)
    assert name not in names(plan.next(at(1)))
    assert f"skipped by pass {DAYS[0]}/0800" in caplog.text
    caplog.clear()
    plan.next(at(2))
    assert not caplog.records  # it was reported


def test_data_after_its_done_file_is_late(tmp_path, caplog):
    folder = tmp_path / "data" / DAYS[0] / "0000"
    folder.mkdir(parents=True)
    (folder / DONE).write_text("")
    make_split(tmp_path / "data" / DAYS[0] / "0800", seed=1)
    plan = make_plan(tmp_path, late_minutes=24 * 60)
    assert plan.next(at(0)).num_files == 0
    assert f"pass {DAYS[0]}/0000 has no file" in caplog.text
    make_split(folder, seed=0)
    assert len(names(plan.next(at(1)))) == 4


def test_a_pass_can_be_looked_at_before_its_turn(tmp_path):
    make_days(tmp_path / "data", DAYS[:1])
    plan = make_plan(tmp_path)
    assert plan.peek(1) == plan.next(at(1)).files
    assert plan.peek(3) is None  # not there yet
    assert plan.peek(6) is None  # after the end
