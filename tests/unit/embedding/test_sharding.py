"""Which holder has which rows, and what is written down about shards."""

import numpy as np
import pytest

from fleetrec.embedding import sharding
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.record import ParentRecord, ShardRecord
from fleetrec.embedding.sharding import (
    NUM_BUCKETS,
    TableShard,
    merge_table_records,
    num_shards_each,
    route,
)
from fleetrec.embedding.table import RowOptimizer, TableConfig

TABLE = TableConfig(name="t", dim=2)
STORE = NativeStore(TABLE, RowOptimizer(name="sgd"), seed=0)


def part(**changes):
    values = dict(kind="base", version=3, crcs=(7,), rows=5, candidates=2, created=6, evicted=1)
    return ShardRecord(**(values | changes))


@pytest.mark.parametrize("count", [1, 2, 3, 7, 1024])
def test_shards_share_out_all_buckets_and_their_files_hold_just_these(count):
    shards = [TableShard(index=index, count=count) for index in range(count)]
    buckets = [bucket for shard in shards for bucket in range(*shard.buckets)]
    assert buckets == list(range(NUM_BUCKETS))
    for shard in shards if count < 1024 else ():
        files = [TableShard(index=i, count=2 * count) for i in range(*shard.files(2))]
        assert (files[0].buckets[0], files[-1].buckets[1]) == shard.buckets


@pytest.mark.parametrize("count", [1, 2, 5])
def test_what_is_split_comes_together_in_its_order(count):
    ids_N = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 100)
    way = route(STORE.table, ids_N, num_shards=count)
    parts = way.split(ids_N)
    for index, its_N in enumerate(parts):
        first, last = TableShard(index=index, count=count).buckets
        buckets_N = STORE.table.buckets_of(np.ascontiguousarray(its_N))
        assert ((buckets_N >= first) & (buckets_N < last)).all()
    assert way.join(parts).tolist() == ids_N.tolist()
    rows_ND = np.stack([ids_N, ids_N + 1], axis=1)
    assert way.join([np.stack([p, p + 1], axis=1) for p in parts]).tolist() == rows_ND.tolist()


def test_the_fullest_holder_decides_how_many_files_each_writes(monkeypatch):
    monkeypatch.setattr(sharding, "SHARD_BYTES", 80)  # ten rows of two floats
    assert num_shards_each(TABLE, [{"rows": 0}]) == 1
    assert num_shards_each(TABLE, [{"rows": 5}, {"rows": 35}]) == 4
    assert num_shards_each(TABLE, [{"rows": 10**6}] * 3) == 1024 // 3


def test_records_of_shards_add_up_to_that_of_the_table():
    parent = ParentRecord(path="../base", fingerprint="00ff")
    parts = [part(kind="delta"), part(kind="delta", crcs=(8, 9), rows=10)]
    record = merge_table_records(STORE.identity, parts, parent=parent)
    assert (record.kind, record.parent, record.version) == ("delta", parent, 3)
    assert (record.rows, record.candidates) == (15, 4)
    assert (record.created, record.evicted) == (12, 2)
    one = merge_table_records(STORE.identity, [part(crcs=(7, 8, 9))], parent=None)
    assert record.fingerprint == one.fingerprint


@pytest.mark.parametrize("other", [{"version": 4}, {"kind": "delta"}])
def test_shards_of_different_snapshots_do_not_add_up(other):
    with pytest.raises(ValueError, match="expected all shards of a base of version 3, got a"):
        merge_table_records(STORE.identity, [part(), part(**other)], parent=None)
