"""Options that fit the passes which a run has begun."""

import pytest

from fleetrec.config.online import FollowOptions
from fleetrec.core.errors import ConfigError
from fleetrec.core.event_time import day_time
from fleetrec.train.pass_check import check_passes
from fleetrec.train.pass_log import FrozenPass, PassLog
from fleetrec.train.pass_plan import PassSpec

OPTIONS = {"folders": ("data",), "start_day": "20261116", "split_minutes": 480}


def write_pass(folder, *, day, number, index):
    begin = day_time(day) + (number - 1) * 480 * 60
    spec = PassSpec(
        name=f"{day}/{(number - 1) * 8:02d}00",
        index=index,
        event_time=begin,
        end_time=begin + 480 * 60,
        files={},
        fingerprint={},
        day=day,
        number=number,
        ends_day=number == 3,
    )
    PassLog(str(folder)).write(FrozenPass(spec=spec))


@pytest.fixture
def begun(tmp_path):
    """A folder of a run that has begun the second pass of its second day."""
    for index in range(5):
        day = "20261116" if index < 3 else "20261117"
        write_pass(tmp_path, day=day, number=index % 3 + 1, index=index)
    return str(tmp_path)


def test_a_run_that_has_not_begun_may_have_any_options(tmp_path):
    check_passes(FollowOptions(**OPTIONS), save_path=str(tmp_path))


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"end_day": "20261130"},
        {"split_minutes": 240, "splits_per_pass": 2},
        {"folders": ("other",)},
    ],
)
def test_what_does_not_change_the_numbers_of_passes_may_change(begun, change):
    check_passes(FollowOptions(**OPTIONS | change), save_path=begun)


@pytest.mark.parametrize("change", [{"split_minutes": 240}, {"splits_per_pass": 3}])
def test_passes_of_another_length_are_refused(begun, change):
    with pytest.raises(ConfigError, match=r"pass 20261117/0800 has 480 minutes, .* set them back"):
        check_passes(FollowOptions(**OPTIONS | change), save_path=begun)


@pytest.mark.parametrize("day", ["20261115", "20261117", "20270101"])
def test_another_first_day_is_refused(begun, day):
    words = f"count from start_day 20261116, but start_day is now {day}; set it back"
    with pytest.raises(ConfigError, match=words):
        check_passes(FollowOptions(**OPTIONS | {"start_day": day}), save_path=begun)
