"""Lookups of whole batches: what users are told, and what is left alone."""

import pytest
import torch

from fleetrec.core.batch import Batch
from fleetrec.core.cursor import Cursor
from fleetrec.core.errors import DataError
from fleetrec.core.jagged import KeyedJagged
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.lookup import Lookup
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.table import RowOptimizer, TableConfig


def make_batch(**lists):
    flat = [some for column in lists.values() for some in column]
    return Batch(
        ids=KeyedJagged(
            names=tuple(lists),
            values_N=torch.tensor([i for some in flat for i in some], dtype=torch.int64),
            offsets=torch.tensor([0, *(len(some) for some in flat)]).cumsum(0),
            num_samples=len(next(iter(lists.values()))),
        ),
        dense={},
        cursor=Cursor(),
    )


def make_lookup(*features, tables, frozen=()):
    stores = {t.name: NativeStore(t, RowOptimizer(name="adamw"), seed=0) for t in tables}
    collection = EmbeddingCollection(features=features, tables=tables)
    return Lookup(collection, stores, frozen=frozen), stores


def test_the_first_id_out_of_range_is_told_with_its_own_table():
    small, large = TableConfig(name="small", dim=2, num_rows=5), TableConfig(name="large", dim=2)
    lookup, stores = make_lookup(
        EmbeddedFeature(feature="a", table="large"),
        EmbeddedFeature(feature="a", table="small", combiner="none"),
        tables=[small, large],
    )
    with pytest.raises(
        DataError, match=r"slot 'a': id 7 is outside \[0, 5\); .* table 'small' .* hash_ids: 1"
    ):
        lookup.pull(make_batch(a=[[1], [7, 9]]), training=True)
    assert len(stores["large"]) == 0


def test_a_frozen_table_gets_no_rows_and_counts_nothing():
    table = TableConfig(name="t", dim=2)
    lookup, stores = make_lookup(
        EmbeddedFeature(feature="a", table="t"), tables=[table], frozen=["t"]
    )
    stores["t"].pull(torch.tensor([1]), create=True)
    before = stores["t"].snapshot()
    looked_up = lookup.pull(make_batch(a=[[1], [2]]), training=True)
    looked_up.vectors["embedded_2"].sum().backward()
    lookup.push(looked_up, lr=0.1)
    assert torch.equal(looked_up.vectors["embedded_2"][1], torch.zeros(2))
    after = stores["t"].snapshot()
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_a_loss_without_the_sequence_moves_no_row_of_it():
    table = TableConfig(name="t", dim=2)
    lookup, stores = make_lookup(
        EmbeddedFeature(feature="a", table="t"),
        EmbeddedFeature(feature="b", table="t", combiner="none"),
        tables=[table],
    )
    batch = make_batch(a=[[1]], b=[[2, 3]])
    before = lookup.pull(batch, training=True).vectors
    looked_up = lookup.pull(batch, training=True)
    looked_up.vectors["embedded_2"].sum().backward()
    lookup.push(looked_up, lr=0.1)
    after = lookup.pull(batch, training=False).vectors
    assert torch.equal(after["sequence_b"], before["sequence_b"])
    assert not torch.equal(after["embedded_2"], before["embedded_2"])
    assert len(stores["t"]) == 3


def test_a_sequence_of_empty_lists_is_one_vector_of_zeros():
    table = TableConfig(name="t", dim=2)
    lookup, _ = make_lookup(
        EmbeddedFeature(feature="a", table="t", combiner="none"), tables=[table]
    )
    vectors = lookup.pull(make_batch(a=[[], []]), training=True).vectors
    assert torch.equal(vectors["sequence_a"], torch.zeros(2, 1, 2))
    assert vectors["lengths_a"].tolist() == [0, 0]
    assert lookup.pull(make_batch(a=[]), training=True).vectors["sequence_a"].shape == (0, 1, 2)
