"""Several holders write bases and deltas together; any number of holders reads the chain back."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetrec.core.errors import MismatchError
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.record import Chain, ParentRecord, StoredTable
from fleetrec.embedding.sharding import TableShard, merge_table_records, route, sum_stats
from fleetrec.embedding.table import Admission, RowOptimizer, TableConfig
from making import columns_of

TABLE = TableConfig(name="t", dim=2, admission=Admission(kind="count", threshold=2))
ids = st.lists(st.integers(0, 12) | st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=6)
operation = st.tuples(st.sampled_from(["count", "push", "write", "evict"]), ids) | st.tuples(
    st.sampled_from(["delta", "base", "lost", "reshard"]), st.just([])
)


class Holders:
    """The shards of one table, changed and saved as one."""

    def __init__(self, count):
        self.stores = [make_store(index, count) for index in range(count)]

    def change(self, verb, ids_N):
        """Change the table of every holder at the ids that it holds."""
        way = route(self.stores[0].table, ids_N, num_shards=len(self.stores))
        for store, its_N in zip(self.stores, way.split(ids_N), strict=True):
            change(store.table, verb, its_N)

    def snapshot(self):
        """All rows and candidates by column, ordered by id, and what was counted."""
        taken = [store.table.snapshot() for store in self.stores]
        columns = {name: np.concatenate([one[name] for one in taken]) for name in taken[0]}
        for key in ("", "candidate_"):
            order = np.argsort(columns[f"{key}ids"].view(np.uint64))
            names = [n for n in columns if n.startswith("candidate_") == bool(key)]
            columns |= {name: columns[name][order] for name in names}
        stats = sum_stats([store.table.stats() for store in self.stores])
        return columns | {"counts": np.array([stats["created"], stats["evicted"]])}

    def write(self, directory, *, parent, shards_each=2):
        directory.mkdir()
        least = max(store.table.version for store in self.stores)
        cuts = [store.cut(least=least) for store in self.stores]
        fingerprint = parent.fingerprint if parent else None
        parts = [
            cut.write_shard(directory, parent=fingerprint, shards_each=shards_each) for cut in cuts
        ]
        record = merge_table_records(self.stores[0].identity, parts, parent=parent)

        def commit():
            for cut in cuts:
                cut.commit(record.fingerprint)

        return record, commit

    def load(self, stored):
        for store in self.stores:
            store.load(stored)


class SavedHolders:
    """Holders, and the chain of snapshots that they wrote."""

    def __init__(self, folder, count):
        self._folder = folder
        self._num_written = 0
        self.stored = None
        self.holders = Holders(count)
        self.save("base")

    def save(self, kind):
        before = None if kind == "base" else self.stored
        parent = before and ParentRecord(path="..", fingerprint=before.record.fingerprint)
        directory = self._folder / str(self._num_written)
        self._num_written += 1
        record, commit = self.holders.write(
            directory, parent=parent, shards_each=1 + self._num_written % 3
        )
        if kind == "lost":
            return
        commit()
        urls = (*(before.chain.urls if before else ()), str(directory))
        chain = Chain(urls=urls, fingerprint=record.fingerprint)
        self.stored = StoredTable(name="t", record=record, chain=chain)

    def reshard(self):
        self.save("delta")
        self.holders = Holders(len(self.holders.stores) % 3 + 1)
        self.holders.load(self.stored)


def make_store(index, count):
    shard = TableShard(index=index, count=count)
    return NativeStore(TABLE, RowOptimizer(name="adam"), seed=3, shard=shard)


def change(table, verb, ids_N):
    grads_ND = np.linspace(-1, 1, 2 * len(ids_N), dtype=np.float32).reshape(-1, 2)
    counts_N = np.ones(len(ids_N), np.uint32)
    match verb:
        case "count":
            table.count_impressions(ids_N, counts_N, counts_N, now=7)
        case "push":
            table.push(ids_N, grads_ND, lr=0.1)
        case "write":
            unique_N = np.unique(ids_N)
            table.write(unique_N, grads_ND[: len(unique_N)])
        case "evict":
            table.evict(ids_N)


def assert_same(found, want):
    assert found.keys() == want.keys()
    for name, column in want.items():
        assert found[name].tolist() == column.tolist(), name


@settings(max_examples=60)
@given(st.integers(1, 3), st.lists(operation, max_size=16))
def test_a_chain_of_several_holders_holds_the_table(count, operations):
    with tempfile.TemporaryDirectory() as folder:
        saved = SavedHolders(Path(folder), count)
        for verb, what in operations:
            if verb == "reshard":
                saved.reshard()
            elif verb in ("delta", "base", "lost"):
                saved.save(verb)
            else:
                saved.holders.change(verb, np.array(what, np.int64))
        saved.save("delta")
        want = saved.holders.snapshot()
        for other in (1, 2, 3):
            read = Holders(other)
            read.load(saved.stored)
            assert_same(read.snapshot(), want)
        streamed = columns_of(saved.stored)
        assert streamed["counts"].tolist() == want["counts"].tolist()
        for name in ("ids", "rows", "state", "shows") if len(want["ids"]) else ():
            column = want[name].view(np.uint64) if name == "ids" else want[name]
            assert streamed[name].tolist() == column.tolist(), name


def test_a_deleted_id_stays_deleted_whoever_reads_the_chain(tmp_path):
    saved = SavedHolders(tmp_path, 3)
    chosen_N = np.arange(60)
    for _ in range(2):
        saved.holders.change("count", chosen_N)
    saved.save("delta")
    saved.holders.change("evict", chosen_N[:40])
    saved.holders.change("write", chosen_N[:10])
    saved.save("delta")
    for count in (1, 2, 3):
        read = Holders(count)
        read.load(saved.stored)
        assert read.snapshot()["ids"].tolist() == [*range(10), *range(40, 60)]


def test_a_holder_that_lost_the_parent_refuses_to_write_a_delta(tmp_path):
    saved = SavedHolders(tmp_path, 2)
    lost = make_store(1, 2)  # as after a restart: same rows perhaps, but no parent
    with pytest.raises(MismatchError, match="write a full checkpoint instead"):
        lost.cut().write_shard(tmp_path, parent=saved.stored.record.fingerprint, shards_each=1)
