"""Which ids get a row, against a slow twin; nothing depends on who asks or in how many batches."""

import numpy as np
import pytest
import torch

from fleetrec._native import BatchLookup
from fleetrec.embedding.native_store import NativeStore, salt_of
from fleetrec.embedding.table import Admission, RowOptimizer, TableConfig
from making import save_store

MASK = 2**64 - 1


def make_store(admission: Admission, *, dim: int = 2) -> NativeStore:
    table = TableConfig(name="t", dim=dim, admission=admission)
    return NativeStore(table, RowOptimizer(name="sgd"), seed=0)


def train_on(store: NativeStore, ids: list[int], *, clicks: list[int] | None = None, now: int = 0):
    """Look ids up in training, one sample each; returns their vectors."""
    lookup = BatchLookup([store.table], [(0, 0, "sum")], [])
    offsets = np.arange(len(ids) + 1, dtype=np.int64)
    labels = None if clicks is None else np.array(clicks, np.float32)
    values = np.array(ids, np.int64)
    lookup.find(values, offsets, len(ids), training=True, now=now, labels=labels)
    vectors = np.empty((len(ids), 2), np.float32)
    lookup.pool(vectors)
    return vectors


def mix(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


class TwinAdmission:
    """Counts in a dict."""

    def __init__(self, rule: Admission, salt: int) -> None:
        self._rule = rule
        self._salt = salt
        self._counts: dict[int, tuple[int, int]] = {}
        self.admitted: set[int] = set()

    def count(self, i: int, click: int) -> None:
        if i in self.admitted:
            return
        show, clicks = self._counts.get(i, (0, 0))
        self._counts[i] = (show + 1, clicks + click)
        if self._admits(i, *self._counts[i], click=click):
            self.admitted.add(i)
            del self._counts[i]

    def waiting(self) -> set[int]:
        return set(self._counts)

    def _draw(self, i: int, show: int) -> float:
        return (mix((mix((i & MASK) ^ self._salt) + show) & MASK) >> 11) * 2.0**-53

    def _admits(self, i: int, show: int, clicks: int, *, click: int) -> bool:
        rule = self._rule
        if rule.kind == "count":
            return show >= rule.threshold
        if rule.kind == "probability":
            return self._draw(i, show) < rule.threshold
        if rule.kind == "ctr":
            return self._draw(i, show) < (rule.click_weight if click else rule.show_weight)
        if rule.kind == "score":
            score = rule.show_weight * (show - clicks) + rule.click_weight * clicks
            return score >= rule.threshold
        return True


RULES = [
    Admission(),
    Admission(kind="count", threshold=3),
    Admission(kind="probability", threshold=0.3),
    Admission(kind="score", threshold=1.5, show_weight=0.5, click_weight=1.0),
    Admission(kind="ctr", show_weight=0.1, click_weight=0.4),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind)
@pytest.mark.parametrize("batch_size", [1, 7, 500])
def test_rows_and_counters_are_those_of_the_twin(rule, batch_size):
    rng = np.random.default_rng(0)
    ids = (rng.zipf(1.3, 500) % 60 - 20).tolist()
    clicks = rng.integers(0, 2, 500).tolist()
    store, twin = make_store(rule), TwinAdmission(rule, salt_of("t", seed=0))
    for begin in range(0, 500, batch_size):
        part = slice(begin, begin + batch_size)
        train_on(store, ids[part], clicks=clicks[part])
    for i, click in zip(ids, clicks, strict=True):
        twin.count(i, click)
    taken = store.snapshot()
    assert set(taken["ids"].tolist()) == twin.admitted
    assert set(taken["candidate_ids"].tolist()) == twin.waiting()


def test_a_row_admitted_by_its_click_counts_from_there():
    store = make_store(Admission(kind="ctr", show_weight=0.0, click_weight=1.0))
    train_on(store, [5, 5, 6, 5, 5], clicks=[0, 0, 0, 1, 0])
    taken = store.snapshot()
    assert (taken["ids"].tolist(), taken["candidate_ids"].tolist()) == ([5], [6])
    assert (taken["shows"].tolist(), taken["clicks"].tolist()) == ([2.0], [1.0])


def test_an_id_that_is_not_admitted_is_zeros_and_has_no_row():
    store = make_store(Admission(kind="count", threshold=3))
    assert not train_on(store, [5, 5]).any()
    assert len(store) == 0
    assert train_on(store, [5]).any()
    assert len(store) == 1


def test_impressions_before_admission_count():
    store = make_store(Admission(kind="count", threshold=3))
    train_on(store, [5, 5], clicks=[1, 0])
    train_on(store, [5, 5], clicks=[1, 1])
    taken = store.snapshot()
    assert (taken["shows"].tolist(), taken["clicks"].tolist()) == ([4.0], [3.0])


def test_evaluation_counts_nothing():
    store = make_store(Admission(kind="count", threshold=2))
    for _ in range(3):
        store.pull(torch.tensor([5]), create=False)
    assert store.table.stats()["candidates"] == 0


def test_counters_survive_a_snapshot(tmp_path):
    rule = Admission(kind="count", threshold=3)
    first, second = make_store(rule), make_store(rule)
    train_on(first, [5, 5, 6], clicks=[1, 0, 1], now=77)
    second.load(save_store(first, tmp_path / "saved"))
    want, got = first.snapshot(), second.snapshot()
    assert all(torch.equal(want[name], got[name]) for name in want)
    train_on(second, [5])
    assert second.snapshot()["ids"].tolist() == [5]
