"""Training steps: who is waited for, and what a repeated request does."""

import numpy as np
import pytest

from fleetrec.embedding.table import Eviction, TableConfig
from fleetrec.server.evict_request import EvictionRequest
from fleetrec.server.wire import Kind, WireError
from unit.server.serving import MODEL, SYNC, RunningService


@pytest.mark.parametrize("snapshot_bytes", [1, 1 << 30])
def test_a_push_is_applied_once_also_after_a_restart(tmp_path, snapshot_bytes):
    running = RunningService(tmp_path, snapshot_bytes=snapshot_bytes)
    running.push(1)
    running.push(1)
    rows, dense = running.rows(), running.dense()
    assert dense == [-1.0] * MODEL.num_dense
    running.restart()
    running.push(1)
    assert (running.rows(), running.dense()) == (rows, dense)
    answer = running.call(Kind.HELLO)
    assert (answer.sequence, answer.array(0, np.uint8).tobytes()) == (1, b"1")


def test_a_step_waits_for_all_workers(tmp_path):
    running = RunningService(tmp_path, model=SYNC, num_workers=2)
    running.push(1, worker=0, grad=1.0, num_samples=3)
    waiting = running.pull(2, worker=0)
    assert (waiting.kind, waiting.arrays[0].tolist()) == (Kind.WAIT, [1])
    assert running.dense() == [0.0] * MODEL.num_dense
    running.push(1, worker=1, grad=5.0, num_samples=1)
    assert running.dense() == [0.0] * MODEL.num_dense  # worker 1 may not have reached all servers
    assert running.pull(2, worker=1).kind == Kind.OK
    assert running.dense() == [-2.0] * MODEL.num_dense  # (3 * 1 + 1 * 5) / 4


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_worker_repeats_its_step_from_the_same_rows(tmp_path, is_restarted):
    running = RunningService(tmp_path, model=SYNC, num_workers=2)
    before = running.pull(1, worker=0).arrays[1].tolist()
    running.push(1, worker=0)
    running.push(1, worker=1)
    running.pull(2, worker=1)
    if is_restarted:
        running.restart()
    again = running.pull(1, worker=0)
    assert (again.kind, again.arrays[1].tolist()) == (Kind.OK, before)
    running.push(1, worker=0, grad=100.0)  # a repetition, whatever its content
    running.pull(2, worker=1)
    assert running.pull(2, worker=0).kind == Kind.OK
    assert running.dense() == [-1.0] * MODEL.num_dense


def test_workers_that_have_ended_the_pass_are_not_waited_for(tmp_path):
    running = RunningService(tmp_path, model=SYNC, num_workers=2)
    assert running.call(Kind.END_PASS, worker=1, incarnation=1).kind == Kind.WAIT
    running.push(1, worker=0)
    assert running.pull(2, worker=0).kind == Kind.OK
    assert running.dense() == [-1.0] * MODEL.num_dense
    assert running.call(Kind.END_PASS, worker=0, incarnation=1).kind == Kind.OK
    running.restart()
    assert running.call(Kind.END_PASS, worker=1, incarnation=1).kind == Kind.OK
    running.push(2, worker=0)
    assert running.pull(3, worker=0).kind == Kind.WAIT  # a new pass, with worker 1


def test_a_push_that_skips_one_is_refused(tmp_path):
    running = RunningService(tmp_path, model=SYNC)
    with pytest.raises(WireError, match="push 2 does not follow 0"):
        running.push(2)


def test_a_pull_says_how_many_steps_were_made(tmp_path):
    running = RunningService(tmp_path)
    running.push(1)
    running.push(2)
    answer = running.pull(3)
    assert answer.incarnation == 2
    assert answer.array(0, np.float32).tolist() == [-2.0] * MODEL.num_dense


def test_known_dense_weights_are_not_sent_again(tmp_path):
    running = RunningService(tmp_path)
    version = running.pull(1).sequence
    none = np.zeros(0, np.int64)
    for known in ([version, 1], [0, 0]):
        arrays = [np.array(known, np.uint64), none, none]
        answer = running.call(Kind.PULL, incarnation=1, sequence=1, arrays=arrays)
        assert (len(answer.arrays[0]), answer.sequence) == (0, known[0])


def test_rows_are_evicted_once_per_pass_by_event_time(tmp_path):
    table = TableConfig(name="t", dim=2, eviction=Eviction(max_unseen_days=1))
    model = MODEL.model_copy(update={"tables": (table, MODEL.tables[1])})
    running = RunningService(tmp_path, model=model)
    running.push(1)  # at event time 0

    def evict(number, now, *, ends_day=True):
        arrays = [EvictionRequest(now=now, ends_day=ends_day).to_array()]
        running.call(Kind.EVICT, incarnation=1, sequence=number, arrays=arrays)

    evict(0, 86_400)
    assert len(running.rows()) == 1
    evict(0, 200_000)  # repeated
    running.restart()
    evict(0, 200_000)
    assert len(running.rows()) == 1
    evict(1, 200_000, ends_day=False)
    assert len(running.rows()) == 1
    running.restart()  # the journal says so, too
    assert len(running.rows()) == 1
    evict(2, 200_000)
    assert running.rows() == []
