"""A chief that waits for something, and its peers that wait for the chief."""

import pytest
import torch

from fleetrec.core.errors import DataError, FleetRecError
from fleetrec.parallel.solo import SoloGroup
from fleetrec.parallel.wait_on_chief import wait_on_chief


class Clock:
    """Time that passes only while somebody sleeps."""

    now = 0.0

    def __call__(self):
        return self.now

    def pause(self):
        self.now += 10


class Peer(SoloGroup):
    """Another process: it receives what the chief has sent."""

    is_chief = False

    def __init__(self, sent):
        super().__init__(torch.device("cpu"))
        self._sent = dict(sent)

    def broadcast(self, content, *, key, pass_index):
        del content, pass_index
        return self._sent[key]


class Chief(SoloGroup):
    """The process that waits; it keeps what it sends."""

    def __init__(self):
        super().__init__(torch.device("cpu"))
        self.sent = {}

    def broadcast(self, content, *, key, pass_index):
        del pass_index
        self.sent[key] = content
        return content


def wait(group, poll, *, should_stop=lambda: False):
    clock = Clock()
    return wait_on_chief(
        group,
        poll,
        key="pass",
        pass_index=3,
        pause=clock.pause,
        clock=clock,
        should_stop=should_stop,
        heartbeat_s=25,
    )


def no_poll():
    raise AssertionError("only the chief polls")


def test_all_processes_get_what_the_chief_has_waited_for():
    answers = iter([None] * 7 + ["found"])
    chief = Chief()
    assert wait(chief, lambda: next(answers)) == "found"
    assert len(chief.sent) == 3  # a sign of life every 25 s, then the result
    assert wait(Peer(chief.sent), no_poll) == "found"


def test_an_error_of_the_chief_is_raised_by_all():
    def poll():
        raise DataError("no such folder")

    chief = Chief()
    with pytest.raises(DataError, match="no such folder"):
        wait(chief, poll)
    with pytest.raises(FleetRecError, match="no such folder"):
        wait(Peer(chief.sent), no_poll)


def test_a_stop_ends_the_waiting_of_all():
    chief = Chief()
    assert wait(chief, lambda: None, should_stop=lambda: True) is None
    assert wait(Peer(chief.sent), no_poll) is None
