"""Which pushes make one step, and which processes may send them."""

import pytest

from fleetrec.server.wire import WireError
from fleetrec.server.workers import Workers
from unit.server.serving import make_push


def make_workers(num_workers=2):
    workers = Workers(num_workers)
    for index in range(num_workers):
        workers.hold_push(index, 1, make_push(grad=index, progress=b"%d" % index))
    return workers


def test_a_step_waits_for_every_worker_in_the_pass():
    workers = make_workers(3)
    assert workers.missing() == [0, 1, 2]
    workers.set_ready(0)
    workers.end_pass(2)
    assert workers.missing() == [1]
    assert workers.in_pass() == [0, 1]


def test_pending_pushes_are_taken_in_rank_order():
    workers = make_workers()
    assert workers.num_pending() == 2
    assert [push.progress for push in workers.take_pending()] == [b"0", b"1"]
    assert workers.num_pending() == 0
    assert workers.missing() == [0, 1]


def test_progress_counts_when_its_push_is_applied():
    workers = make_workers()
    assert workers.applied() == [b"", b""]
    workers.take_pending()
    assert workers.applied() == [b"0", b"1"]
    workers.record_push(1, 2, b"later")
    assert workers.applied() == [b"0", b"later"]


def test_all_workers_take_part_in_the_next_pass():
    workers = Workers(2)
    workers.end_pass(0)
    workers.end_pass(1)
    workers.start_next_pass(4)
    assert workers.num_passes == 5
    assert workers.in_pass() == [0, 1]


def test_a_replaced_process_is_refused():
    workers = Workers(1)
    workers.register(0, 2)
    assert workers.check_alive(0, 2).incarnation == 2
    with pytest.raises(WireError, match="incarnation 1 was replaced by 2"):
        workers.check_alive(0, 1)


def test_an_unknown_worker_is_refused():
    with pytest.raises(WireError, match="worker 2 of 2 does not exist"):
        Workers(2).of(2)


def test_a_loaded_state_equals_the_saved_one():
    workers = make_workers()
    workers.register(1, 3)
    workers.take_pending()
    workers.start_next_pass(0)
    loaded = Workers(2)
    loaded.load(workers.to_plain())
    assert loaded.num_passes == 1
    assert [loaded.of(i) for i in (0, 1)] == [workers.of(i) for i in (0, 1)]
