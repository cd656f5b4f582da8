"""What only the chief does succeeds or fails on every process."""

import functools

import pytest

from fleetrec.core.errors import ConfigError, FleetRecError
from fleetrec.parallel.on_chief import on_chief
from making_groups import thread_ranks, together


def call(group, act):
    try:
        return on_chief(group, act, key="k", pass_index=None)
    except (FleetRecError, OSError) as error:
        return error


def on_all(act, *, size=3):
    return together([functools.partial(call, group, act) for group in thread_ranks(size)])


def test_the_chief_acts_once_and_all_get_its_result():
    calls = []
    assert on_all(lambda: calls.append(1) or "done") == ["done"] * 3
    assert calls == [1]


def test_a_refusal_of_the_chief_refuses_the_job_on_every_process():
    def refuse():
        raise ConfigError(["one", "two"])

    found = on_all(refuse)
    assert [type(error) for error in found] == [ConfigError] * 3
    assert {error.problems for error in found} == {("one", "two")}


@pytest.mark.parametrize("kind", [FleetRecError, OSError])
def test_a_failure_of_the_chief_gives_all_its_reason(kind):
    def fail():
        raise kind("the disk is full")

    found = on_all(fail)
    assert type(found[0]) is kind
    assert [str(error) for error in found] == ["the disk is full"] * 3


def test_a_fault_of_the_code_keeps_its_traceback():
    (group,) = thread_ranks(1)
    with pytest.raises(ZeroDivisionError):
        on_chief(group, lambda: str(1 // 0), key="k", pass_index=None)
