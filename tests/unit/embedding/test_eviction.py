"""Which rows a table gives up."""

import numpy as np
import pytest
import torch

from fleetrec._native import BatchLookup
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.record import Chain, StoredTable, TableRecord
from fleetrec.embedding.table import Admission, Eviction, RowOptimizer, TableConfig

DAY = 86_400


def make_store(*, num_rows: int | None = None, **rules) -> NativeStore:
    table = TableConfig(name="t", dim=2, num_rows=num_rows, eviction=Eviction(**rules))
    return NativeStore(table, RowOptimizer(name="adam"), seed=0)


def train_on(
    store: NativeStore, ids: list[int], *, day: int, clicks: list[int] | None = None
) -> None:
    lookup = BatchLookup([store.table], [(0, 0, "sum")], [])
    labels = None if clicks is None else np.array(clicks, np.float32)
    offsets = np.arange(len(ids) + 1, dtype=np.int64)
    values = np.array(ids, np.int64)
    lookup.find(values, offsets, len(ids), training=True, now=day * DAY, labels=labels)


def left(store: NativeStore) -> list[int]:
    return store.snapshot()["ids"].tolist()


@pytest.fixture(params=[None, 100], ids=["growing", "static"])
def num_rows(request):
    return request.param


def test_rows_unseen_for_too_long_go(num_rows):
    store = make_store(num_rows=num_rows, max_unseen_days=2)
    for day, i in enumerate([10, 11, 12, 13]):
        train_on(store, [i], day=day)
    assert store.evict(now=3 * DAY, ends_day=True) == 1
    assert left(store) == [11, 12, 13]
    assert store.evict(now=5 * DAY, ends_day=True) == 2
    assert left(store) == [13]


def test_rows_of_low_score_go_and_scores_fade(num_rows):
    store = make_store(num_rows=num_rows, min_score=1.0, decay=0.5, show_weight=0.5)
    # Scores: 4 shows 2.0; 2 shows with 2 clicks 2.0; 2 shows 1.0
    train_on(store, [1, 1, 1, 1, 2, 2, 3, 3], day=0, clicks=[0, 0, 0, 0, 1, 1, 0, 0])
    assert store.evict(now=0, ends_day=True) == 1
    assert left(store) == [1, 2]
    assert store.snapshot()["shows"].tolist() == [2.0, 1.0]
    assert store.evict(now=0, ends_day=True) == 2


def test_beyond_its_capacity_a_table_keeps_what_it_saw_last(num_rows):
    store = make_store(num_rows=num_rows, max_rows=3)
    train_on(store, [1, 2, 3, 4], day=1)
    train_on(store, [2, 5], day=2)
    assert store.evict(now=2 * DAY, ends_day=True) == 2
    assert left(store) == [2, 4, 5]  # of 1, 3 and 4, equally old, the smaller ids go


def test_within_a_day_only_the_capacity_counts(num_rows):
    store = make_store(num_rows=num_rows, max_unseen_days=1, min_score=9.0, decay=0.5, max_rows=3)
    train_on(store, [1, 2, 3, 4], day=1)
    assert store.evict(now=9 * DAY, ends_day=False) == 1
    assert left(store) == [2, 3, 4]
    assert store.snapshot()["shows"].tolist() == [1.0, 1.0, 1.0]  # nothing has faded


def test_rows_are_counted_by_the_rule_that_evicted_them(num_rows, tmp_path):
    rules = {"max_unseen_days": 1, "min_score": 0.15, "max_rows": 2}
    store = make_store(num_rows=num_rows, **rules)
    train_on(store, [1, 2], day=0)  # unseen
    train_on(store, [3, 4, 4, 5, 5, 6, 6, 7, 7], day=3)  # 3: one show, a score of 0.1
    store.evict(now=3 * DAY, ends_day=True)
    store.table.evict(np.array([7]))  # by no rule
    found = {key: value for key, value in store.table.stats().items() if "evicted" in key}
    assert found == {
        "evicted": 6,
        "evicted_unseen": 2,
        "evicted_score": 1,
        "evicted_capacity": 2,
    }
    record = store.write(tmp_path / "t", parent=None).record
    other = make_store(num_rows=num_rows, **rules)
    chain = Chain(urls=(str(tmp_path / "t"),), fingerprint=record.fingerprint)
    other.load(StoredTable(name="t", record=record, chain=chain))
    assert other.table.stats().items() >= found.items()


def test_a_record_without_counts_by_rule_loads_as_zero(tmp_path):
    store = make_store(max_rows=1)
    train_on(store, [1, 2, 3], day=0)
    store.evict(now=0, ends_day=True)
    plain = store.write(tmp_path / "t", parent=None).record.to_plain()
    for rule in ("unseen", "score", "capacity"):
        del plain[f"evicted_{rule}"]
    record = TableRecord.model_validate(plain)
    other = make_store(max_rows=1)
    chain = Chain(urls=(str(tmp_path / "t"),), fingerprint=record.fingerprint)
    other.load(StoredTable(name="t", record=record, chain=chain))
    stats = other.table.stats()
    assert (stats["evicted"], stats["evicted_capacity"]) == (2, 0)


def test_a_given_number_of_days_replaces_that_of_the_table(num_rows):
    store = make_store(num_rows=num_rows, max_unseen_days=100)
    train_on(store, [1], day=0)
    train_on(store, [2], day=3)
    assert store.evict(now=4 * DAY, ends_day=True, max_unseen_days=2) == 1
    assert left(store) == [2]


def test_without_rules_nothing_goes():
    store = make_store()
    train_on(store, [1, 2], day=0)
    assert store.evict(now=1000 * DAY, ends_day=True) == 0


def test_an_evicted_id_begins_anew():
    store = make_store(max_unseen_days=1)
    ids = torch.tensor([7])
    first = store.pull(ids, create=True)
    store.push(ids, torch.ones(1, 2), lr=0.1)
    store.evict(now=5 * DAY, ends_day=True)
    assert torch.equal(store.pull(ids, create=True), first)
    assert not store.snapshot()["state"].any()


def test_counters_of_ids_without_a_row_age_too():
    config = TableConfig(
        name="t",
        dim=2,
        admission=Admission(kind="count", threshold=3),
        eviction=Eviction(max_unseen_days=1),
    )
    store = NativeStore(config, RowOptimizer(name="sgd"), seed=0)
    train_on(store, [1], day=0)
    train_on(store, [2], day=2)
    store.evict(now=2 * DAY, ends_day=True)
    assert store.snapshot()["candidate_ids"].tolist() == [2]


def test_many_come_and_go_and_the_rest_stays_whole():
    """Places of evicted rows are used again; nobody's row is mixed up with another's."""
    rng = np.random.default_rng(0)
    store = make_store(max_rows=500)
    known: dict[int, torch.Tensor] = {}
    for day in range(20):
        ids = rng.integers(0, 5000, 400).tolist()
        pulled = store.pull(torch.tensor(sorted(set(ids))), create=True)
        known.update(zip(sorted(set(ids)), pulled, strict=True))
        train_on(store, ids, day=day)
        store.evict(now=day * DAY, ends_day=True)
        taken = store.snapshot()
        assert len(taken["ids"]) <= 500
        for i, row in zip(taken["ids"].tolist(), taken["rows"], strict=True):
            assert torch.equal(row, known[i])
    stats = store.table.stats()
    assert stats["created"] - stats["evicted"] == stats["rows"]


def test_a_gradient_after_an_eviction_is_refused():
    store = make_store(max_unseen_days=1)
    lookup = BatchLookup([store.table], [(0, 0, "sum")], [])
    offsets = np.arange(2, dtype=np.int64)
    lookup.find(np.array([1], np.int64), offsets, 1, training=True)
    store.evict(now=9 * DAY, ends_day=True)
    with pytest.raises(RuntimeError, match="removed from a table under a lookup"):
        lookup.apply(np.ones((1, 2), np.float32), lr=0.1)
