"""Rows of the next batch are pulled while the current one is computed, one step old at most."""

import contextlib
import threading
from itertools import pairwise

import pytest
import torch

from fleetrec.config.job import CommunicatorOptions
from fleetrec.core.progress import Progress
from fleetrec.server.endpoint import Endpoint, Security, only
from fleetrec.server.wire import Kind
from making_groups import make_batch, worker
from unit.parallel.linear import Linear
from unit.server.serving import TOKEN, make_service

DEADLINE_S = 60


class Watched:
    """A service that notes what it is asked for, and what it has answered."""

    def __init__(self, service):
        self._service = service
        self._changed = threading.Condition()
        self.asked = []
        self.answered = []
        self.answered_before = {}  # by pull: the pushes that were answered when it came
        self.may_push = threading.Event()
        self.may_push.set()

    def handle(self, message):
        key = (message.kind, message.sequence)
        with self._changed:
            self.asked.append(key)
            if message.kind == Kind.PULL:
                pushes = [seq for kind, seq in self.answered if kind == Kind.PUSH]
                self.answered_before[message.sequence] = pushes
            self._changed.notify_all()
        if message.kind == Kind.PUSH:
            assert self.may_push.wait(DEADLINE_S)
        answer = self._service.handle(message)
        with self._changed:
            self.answered.append(key)
        return answer

    def wait_for_pull(self, sequence):
        with self._changed:
            return self._changed.wait_for(lambda: (Kind.PULL, sequence) in self.asked, DEADLINE_S)


class Meeting(Linear):
    """A model whose computation does not end before the rows of the next batch are asked for."""

    def __init__(self, watched):
        super().__init__()
        self._watched = watched
        self.next_sequence = None

    def forward(self, batch):
        if self.next_sequence is not None:
            assert self._watched.wait_for_pull(self.next_sequence), "nothing was prefetched"
        return super().forward(batch)


@contextlib.contextmanager
def watched_server(directory):
    service, memory = make_service(directory)
    watched = Watched(service)
    with (
        contextlib.closing(memory),
        Endpoint(
            only(watched), "127.0.0.1:0", security=Security(token=TOKEN), num_workers=1
        ) as endpoint,
    ):
        yield watched, f"127.0.0.1:{endpoint.port}"


def joined(endpoint, model=None, *, mode="async", pull_ahead=True):
    communicator = CommunicatorOptions(pull_ahead=pull_ahead)
    make = Linear if model is None else lambda: model
    return worker([endpoint], mode, make=make, communicator=communicator)


def make_batches(count):
    return [make_batch([step % 3, 5]) for step in range(count)]


def test_a_pull_overlaps_the_computation_before_it(tmp_path):
    with watched_server(tmp_path) as (watched, endpoint):
        model = Meeting(watched)
        with joined(endpoint, model) as member:
            for number, (batch, upcoming) in enumerate(pairwise(make_batches(5)), start=1):
                member.stepper.prefetch(upcoming)
                model.next_sequence = number + 1
                member.train(batch)


def test_rows_lack_the_step_being_computed_and_nothing_older(tmp_path):
    with watched_server(tmp_path) as (watched, endpoint), joined(endpoint) as member:
        for number, (batch, upcoming) in enumerate(pairwise(make_batches(40)), start=1):
            watched.may_push.clear()  # the push of the step before cannot be answered yet
            member.stepper.prefetch(upcoming)
            if number == 1:
                watched.may_push.set()
            release = threading.Timer(0.01, watched.may_push.set)
            release.start()
            member.train(batch)
            release.join()
        member.end_pass()
        for sequence in range(3, 40):
            assert max(watched.answered_before[sequence]) >= sequence - 2


def test_a_prefetched_batch_does_not_count_until_it_is_trained(tmp_path):
    first, second, third = make_batches(3)
    with watched_server(tmp_path) as (_, endpoint):
        with joined(endpoint) as member:
            for batch, upcoming in ((first, second), (second, third)):
                member.stepper.prefetch(upcoming)
                member.train(batch)
            member.end_pass()
        with joined(endpoint) as successor:
            assert Progress.from_bytes(successor.group.load_progress()).step == 2


def test_a_batch_that_was_not_prefetched_is_pulled_for_itself(tmp_path):
    first, prefetched, other = make_batches(3)
    rows = {}
    for name, pull_ahead in (("ahead", True), ("not", False)):
        torch.manual_seed(0)
        with (
            watched_server(tmp_path / name) as (_, endpoint),
            joined(endpoint, pull_ahead=pull_ahead) as member,
        ):
            if pull_ahead:
                member.stepper.prefetch(prefetched)
            member.train(first)
            member.end_pass()
            member.train(other)
            member.end_pass()
            rows[name] = member.state.export_rows()["t"]
    torch.testing.assert_close(rows["ahead"], rows["not"], atol=0, rtol=0)


@pytest.mark.parametrize("mode", ["sync", "half_async"])
def test_other_modes_are_exact_and_prefetch_nothing(tmp_path, mode):
    with watched_server(tmp_path) as (_, endpoint), joined(endpoint, mode=mode) as member:
        assert not member.stepper.prefetches
