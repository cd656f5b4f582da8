"""Lookups whose rows come from elsewhere give what local ones give."""

import numpy as np
import pytest
import torch

from fleetrec.core.batch import Batch
from fleetrec.core.cursor import Cursor
from fleetrec.core.errors import DataError
from fleetrec.core.jagged import KeyedJagged
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.lookup import Lookup
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.remote_lookup import RemoteLookup, Rows
from fleetrec.embedding.table import Admission, RowOptimizer, TableConfig

COLLECTION = EmbeddingCollection(
    features=[
        EmbeddedFeature(feature="a", table="t", combiner="mean"),
        EmbeddedFeature(feature="b", table="t", combiner="none", max_length=2),
        EmbeddedFeature(feature="b", table="u", combiner="sum"),
        EmbeddedFeature(feature="c", table="w", combiner="sqrtn"),
    ],
    tables=[
        TableConfig(name="t", dim=3),
        TableConfig(name="u", dim=3, num_rows=20, out_of_range="hash"),
        TableConfig(name="w", dim=2),
    ],
)


def make_stores(**changed):
    return {
        name: NativeStore(table, RowOptimizer(name="sgd"), seed=0)
        for name, table in COLLECTION.tables.items()
    }


def make_batch(seed, *, num_samples=6):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 4, 3 * num_samples)
    offsets = torch.from_numpy(np.concatenate([[0], lengths.cumsum()]))
    ids = KeyedJagged(
        names=("a", "b", "c"),
        values_N=torch.from_numpy(rng.integers(0, 30, offsets[-1].item())),
        offsets=offsets,
        num_samples=num_samples,
        weights_N=torch.from_numpy(rng.random(offsets[-1].item(), dtype=np.float32)),
    )
    return Batch(ids=ids, dense={}, cursor=Cursor())


def fetch_from(stores):
    def fetch(listed, *, training):
        found = {
            name: stores[name].table.read(its.ids_N, as_new=training)
            for name, its in listed.items()
        }
        return {name: Rows(rows_ND=rows, is_there_N=there) for name, (rows, there) in found.items()}

    return fetch


@pytest.mark.parametrize("frozen", [(), ("t",)])
def test_vectors_and_steps_are_those_of_a_local_lookup(frozen):
    local_stores, held = make_stores(), make_stores()
    local = Lookup(COLLECTION, local_stores, frozen=frozen)
    remote = RemoteLookup(COLLECTION, make_stores(), frozen=frozen)
    for step in range(5):
        batch = make_batch(step)
        here = local.pull(batch, training=True)
        there = remote.fetch(batch, fetch_from(held), training=True)
        for name, vector in here.vectors.items():
            if name.startswith("lengths") or "t" not in frozen:
                assert torch.equal(vector, there.vectors[name])
        for looked_up in (here, there):
            sum(v.square().sum() for v in looked_up.vectors.values() if v.requires_grad).backward()
        local.push(here, lr=0.1)
        for name, its in remote.sum(there).items():
            table, seen = held[name].table, its.ids
            table.count_impressions(seen.ids_N, seen.shows_N, seen.clicks_N, now=0)
            table.push(seen.ids_N[: len(its.grads_MD)], its.grads_MD, lr=0.1)
        for name in set(held) - set(frozen):
            mine, theirs = local_stores[name].snapshot(), held[name].snapshot()
            for column, value in mine.items():
                assert torch.equal(value, theirs[column]), (name, column)


def test_rows_that_are_not_there_get_no_gradient():
    table = TableConfig(name="t", dim=2, admission=Admission(kind="count", threshold=2))
    collection = EmbeddingCollection(
        features=[EmbeddedFeature(feature="a", table="t")], tables=[table]
    )
    held = NativeStore(table, RowOptimizer(name="sgd"), seed=0)
    remote = RemoteLookup(collection, {"t": held})
    looked_up = remote.fetch(make_batch(0), fetch_from({"t": held}), training=True)
    assert not looked_up.vectors["embedded_2"].any()
    looked_up.vectors["embedded_2"].sum().backward()
    step = remote.sum(looked_up)["t"]
    assert len(step.grads_MD) == 0
    assert step.ids.shows_N.sum() > 0


def test_an_id_out_of_range_names_its_slot():
    table = TableConfig(name="t", dim=2, num_rows=3)
    collection = EmbeddingCollection(
        features=[EmbeddedFeature(feature="a", table="t")], tables=[table]
    )
    store = NativeStore(table, RowOptimizer(), seed=0)
    with pytest.raises(DataError, match="slot 'a'"):
        RemoteLookup(collection, {"t": store}).list_ids(make_batch(1))
