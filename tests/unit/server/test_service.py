"""A server's state, across its own death, without a wire."""

import errno
import os
import tempfile

import numpy as np
import pytest

from fleetrec.core.errors import CheckpointError
from fleetrec.embedding.remote_lookup import UniqueIds
from fleetrec.embedding.sharding import TableShard
from fleetrec.server.push import Push, RowPush
from fleetrec.server.service_options import START
from fleetrec.server.wire import Kind, Message, WireError, json_array, text_array
from unit.server.serving import MODEL, make_service

SYNC = MODEL.model_copy(update={"mode": "sync"})


class Held:
    """A service that can be killed and started again."""

    def __init__(self, directory, *, model=MODEL, num_workers=1, **options):
        self._make = lambda: make_service(directory, num_workers=num_workers, **options)
        self.service, self.durable = self._make()
        first, last = TableShard(index=0, count=1).part_of(model.num_dense)
        arrays = [json_array(model.to_plain()), np.zeros(last - first, np.float32)]
        self.call(Kind.SETUP, arrays=arrays)
        for worker in range(num_workers):
            self.call(Kind.HELLO, worker=worker, incarnation=1)

    def restart(self):
        self.durable.close()
        self.service, self.durable = self._make()

    def call(self, kind, **fields):
        return self.service.handle(Message(kind=kind, **fields))

    def push(self, sequence, *, grad=1.0, worker=0, num_samples=1):
        counts = np.ones(1, np.uint32)
        none = np.zeros(0, np.uint32)
        push = Push(
            progress=b"%d" % sequence,
            num_samples=num_samples,
            event_time=0,
            grads_P=np.full(MODEL.num_dense, grad, np.float32),
            tables=[
                RowPush(
                    ids_N=np.array([7]),
                    shows_N=counts,
                    clicks_N=counts,
                    grads_MD=np.full((1, 2), grad, np.float32),
                ),
                RowPush(
                    ids_N=np.zeros(0, np.int64),
                    shows_N=none,
                    clicks_N=none,
                    grads_MD=np.zeros((0, 3), np.float32),
                ),
            ],
        )
        return self.service.handle(push.to_message(worker=worker, incarnation=1, sequence=sequence))

    def pull(self, sequence, *, worker=0):
        arrays = [np.array([0, 1], np.uint64), np.array([7]), np.zeros(0, np.int64)]
        return self.call(Kind.PULL, worker=worker, incarnation=1, sequence=sequence, arrays=arrays)

    def dense(self):
        return self.call(Kind.DENSE).array(1, np.float32).tolist()

    def rows(self):
        return self.call(Kind.DUMP, arrays=[json_array("t")[1:-1]]).arrays[1].tolist()


def test_a_journal_grows_as_long_as_the_snapshot_that_would_replace_it(tmp_path):
    held = Held(tmp_path, snapshot_bytes=1)

    def newest():
        (path,) = tmp_path.glob("snapshot-*")
        return path

    held.push(1)
    first = newest()
    size = sum(path.stat().st_size for path in first.rglob("*") if path.is_file())
    sequence = 1
    while newest() == first:
        assert held.durable.num_bytes <= size
        held.restart()  # which remembers how large the snapshot is, but begins a new file
        for _ in range(100):
            sequence += 1
            held.push(sequence)
    assert held.dense() == [-float(sequence)] * MODEL.num_dense


@pytest.mark.parametrize("snapshot_bytes", [1, 1 << 30])
def test_a_push_is_applied_once_also_after_a_restart(tmp_path, snapshot_bytes):
    held = Held(tmp_path, snapshot_bytes=snapshot_bytes)
    held.push(1)
    held.push(1)
    rows, dense = held.rows(), held.dense()
    assert dense == [-1.0] * MODEL.num_dense
    held.restart()
    held.push(1)
    assert (held.rows(), held.dense()) == (rows, dense)
    answer = held.call(Kind.HELLO)
    assert (answer.sequence, answer.array(0, np.uint8).tobytes()) == (1, b"1")


def test_a_step_waits_for_all_workers(tmp_path):
    held = Held(tmp_path, model=SYNC, num_workers=2)
    held.push(1, worker=0, grad=1.0, num_samples=3)
    waiting = held.pull(2, worker=0)
    assert (waiting.kind, waiting.arrays[0].tolist()) == (Kind.WAIT, [1])
    assert held.dense() == [0.0] * MODEL.num_dense
    held.push(1, worker=1, grad=5.0, num_samples=1)
    assert held.dense() == [0.0] * MODEL.num_dense  # worker 1 may yet die between two servers
    assert held.pull(2, worker=1).kind == Kind.OK
    assert held.dense() == [-2.0] * MODEL.num_dense  # (3 * 1 + 1 * 5) / 4


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_worker_makes_its_step_again_from_the_same_rows(tmp_path, is_restarted):
    held = Held(tmp_path, model=SYNC, num_workers=2)
    before = held.pull(1, worker=0).arrays[1].tolist()
    held.push(1, worker=0)
    held.push(1, worker=1)
    held.pull(2, worker=1)
    if is_restarted:
        held.restart()
    again = held.pull(1, worker=0)
    assert (again.kind, again.arrays[1].tolist()) == (Kind.OK, before)
    held.push(1, worker=0, grad=100.0)  # a repetition, whatever it says
    held.pull(2, worker=1)
    assert held.pull(2, worker=0).kind == Kind.OK
    assert held.dense() == [-1.0] * MODEL.num_dense


def test_workers_that_have_left_are_not_waited_for(tmp_path):
    held = Held(tmp_path, model=SYNC, num_workers=2)
    assert held.call(Kind.END_PASS, worker=1, incarnation=1).kind == Kind.WAIT
    held.push(1, worker=0)
    assert held.pull(2, worker=0).kind == Kind.OK
    assert held.dense() == [-1.0] * MODEL.num_dense
    assert held.call(Kind.END_PASS, worker=0, incarnation=1).kind == Kind.OK
    held.restart()
    assert held.call(Kind.END_PASS, worker=1, incarnation=1).kind == Kind.OK
    held.push(2, worker=0)
    assert held.pull(3, worker=0).kind == Kind.WAIT  # a new pass, in which worker 1 takes part


def test_a_push_that_skips_one_is_refused(tmp_path):
    held = Held(tmp_path, model=SYNC)
    with pytest.raises(WireError, match="push 2 does not follow 0"):
        held.push(2)


def test_a_meeting_outlives_the_server(tmp_path):
    held = Held(tmp_path, num_workers=2)

    def bring(worker, content):
        arrays = [np.frombuffer(b"name", np.uint8), np.frombuffer(content, np.uint8)]
        return held.call(Kind.GATHER, worker=worker, sequence=1, arrays=arrays)

    assert bring(0, b"a").arrays[0].tolist() == [1]
    held.restart()
    assert [part.tobytes() for part in bring(1, b"b").arrays] == [b"a", b"b"]
    assert [part.tobytes() for part in bring(0, b"c").arrays] == [b"a", b"b"]


def test_listed_ids_are_taken_by_place():
    counts = np.arange(3, dtype=np.uint32)
    listed = UniqueIds(ids_N=np.array([5, 6, 7]), shows_N=counts, clicks_N=counts)
    assert listed.at(np.array([2, 0])).ids_N.tolist() == [7, 5]


@pytest.mark.parametrize("model", [MODEL, SYNC])
def test_a_snapshot_that_cannot_be_written_holds_up_nobody(tmp_path, monkeypatch, caplog, model):
    def fail(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    held = Held(tmp_path, model=model, snapshot_bytes=1)
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "mkdtemp", fail)
        held.push(1)
        assert held.pull(2).kind == Kind.OK
    assert "no snapshot could be written" in caplog.text
    dense = held.dense()
    assert dense == [-1.0] * MODEL.num_dense
    held.restart()
    assert held.dense() == dense


@pytest.mark.parametrize(
    "name", ["state.json", "counts.json", "dense.safetensors", "sums.json", "tables/t/*"]
)
def test_a_damaged_snapshot_is_refused_by_name(tmp_path, name):
    held = Held(tmp_path, snapshot_bytes=1)
    held.push(1)
    (path,) = tmp_path.glob(f"snapshot-*/{name}")
    whole = path.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 20)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        with pytest.raises(CheckpointError, match=path.parent.name):
            held.restart()
    path.write_bytes(whole)
    held.restart()
    assert held.dense() == [-1.0] * MODEL.num_dense


def test_a_worker_learns_again_what_it_began_with(tmp_path):
    held = Held(tmp_path, num_workers=2)
    brought = [text_array(START), np.frombuffer(b"epoch 3", np.uint8)]
    assert held.call(Kind.GATHER, worker=0, arrays=brought).kind == Kind.WAIT
    held.restart()
    begun = [held.call(Kind.HELLO, worker=worker).array(2, np.uint8).tobytes() for worker in (0, 1)]
    assert begun == [b"epoch 3", b""]
