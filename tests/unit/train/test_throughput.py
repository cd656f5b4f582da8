"""Samples per second, time left, and the share of waiting for data."""

import math

import pytest

from fleetrec.train.events import StepInfo
from fleetrec.train.throughput import Throughput


class Clock:
    """A clock that the test advances."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def info(fraction):
    return StepInfo(
        kind="train", phase="learn", epoch=0, batch=0, step=0, samples=0, fraction=fraction
    )


def slow_items(clock, count, *, seconds):
    for item in range(count):
        clock.now += seconds
        yield item


@pytest.fixture
def clock():
    return Clock()


def interval(throughput, *, fraction, costs=False):
    return throughput.end_interval(info(fraction), {}, tables={}, costs=costs)


def test_an_interval_counts_its_own_samples_and_time(clock):
    throughput = Throughput(clock)
    for seconds, samples in ((2, 60), (5, 50)):
        clock.now += seconds
        throughput.count(info(0.1), num_samples=samples)
        found = interval(throughput, fraction=0.1)
        assert (found.seconds, found.samples_per_s) == (seconds, samples / seconds)


def test_costs_split_the_time_into_waiting_and_working(clock):
    throughput = Throughput(clock)
    for _ in throughput.timed(slow_items(clock, 3, seconds=2)):
        clock.now += 5
    assert interval(throughput, fraction=0.5, costs=True).costs == {
        "reader_cost": 6,
        "step_cost": 15,
    }
    assert interval(throughput, fraction=0.5).costs == {}


def test_the_time_left_follows_what_was_done_since_the_start(clock):
    throughput = Throughput(clock)
    throughput.count(info(0.5), num_samples=1)  # a resumed run begins in the middle
    clock.now += 10
    assert interval(throughput, fraction=0.75).eta_s == pytest.approx(10)
    clock.now += 5
    assert interval(throughput, fraction=0.9).eta_s == pytest.approx(15 / 0.4 * 0.1)


def test_the_time_left_is_unknown_while_nothing_is_done(clock):
    throughput = Throughput(clock)
    throughput.count(info(0.5), num_samples=1)
    assert math.isnan(interval(throughput, fraction=0.5).eta_s)


def test_an_interval_without_time_has_a_rate(clock):
    throughput = Throughput(clock)
    throughput.count(info(0.5), num_samples=1)
    assert math.isfinite(interval(throughput, fraction=0.6).samples_per_s)
