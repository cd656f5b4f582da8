"""Pushes are decoded as they were sent, or refused."""

import dataclasses

import numpy as np
import pytest

from fleetrec.embedding.sharding import WHOLE_TABLE, TableShard
from fleetrec.server.push import check_ids, read_push
from fleetrec.server.spec import build_stores
from fleetrec.server.wire import WireError, decode, encode
from unit.server.serving import MODEL, make_push, make_row_push


def read(push):
    message = decode(encode(push.to_message(worker=0, incarnation=1, sequence=1)))
    return read_push(message, build_stores(MODEL, WHOLE_TABLE), num_dense=MODEL.num_dense)


def test_a_push_survives_the_wire():
    push = read(make_push(grad=2.0, num_samples=3, progress=b"row 7"))
    assert (push.progress, push.num_samples, push.event_time) == (b"row 7", 3, 0)
    assert push.grads_P.tolist() == [2.0] * MODEL.num_dense
    assert push.tables[0].ids_N.tolist() == [7]
    assert push.tables[0].grads_MD.tolist() == [[2.0, 2.0]]
    assert push.tables[1].grads_MD.shape == (0, 3)


def test_a_push_of_too_few_tables_is_refused():
    push = dataclasses.replace(make_push(), tables=[make_row_push([7], [[1, 1]])])
    with pytest.raises(WireError, match="expected a push of 11 arrays, got 7"):
        read(push)


def test_ids_of_another_server_are_refused():
    shard = TableShard(index=0, count=2)
    store = build_stores(MODEL, shard)["t"]
    ids_N = np.arange(100)
    is_held_N = store.table.buckets_of(ids_N) < shard.buckets[1]
    assert 0 < is_held_N.sum() < 100
    check_ids(store, ids_N[is_held_N])
    with pytest.raises(WireError):
        check_ids(store, ids_N)
