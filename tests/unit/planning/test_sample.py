import itertools

import numpy as np
import pytest
import torch

from fleetrec.core.batch import Batch
from fleetrec.core.cursor import Cursor
from fleetrec.core.errors import DataError
from fleetrec.core.jagged import KeyedJagged
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import TableConfig
from fleetrec.planning.sample import growth_power, table_ids, take_sample

GROWING = EmbeddingCollection(
    features=[EmbeddedFeature(feature="item", table="item")],
    tables=[TableConfig(name="item", dim=2)],
)


def make_batch(lists, *, progress=0.0):
    """One feature, ``item``, with these lists."""
    lengths = [0, *itertools.accumulate(map(len, lists))]
    return Batch(
        ids=KeyedJagged(
            names=("item",),
            values_N=torch.tensor([i for one in lists for i in one], dtype=torch.int64),
            offsets=torch.tensor(lengths),
            num_samples=len(lists),
        ),
        dense={},
        cursor=Cursor(),
        progress=progress,
    )


def sample_of(batches, *, max_samples=1000, num_kept=2, clock=None):
    ticks = itertools.count()
    return take_sample(
        batches,
        GROWING,
        max_samples=max_samples,
        num_kept=num_kept,
        clock=clock or (lambda: float(next(ticks))),
    )


def test_ids_are_counted_by_batch_and_over_all():
    batches = [make_batch([[1, 2], [2]]), make_batch([[2], [3]]), make_batch([[3]], progress=1.0)]
    seen = sample_of(batches)
    assert seen.tables["item"].ids_per_batch == 2.5  # of whole batches
    assert seen.tables["item"].different_ids_per_batch == 2
    assert seen.tables["item"].num_different == 3
    assert seen.num_samples == seen.num_samples_of_all == 5
    assert seen.num_rows("item") == 3
    assert seen.read_s_per_sample == 0.5  # a second a batch, by a clock that ticks when looked at


def test_reading_stops_when_enough_is_seen_but_not_before_a_second_batch():
    batches = iter([make_batch([[n], [n]], progress=(n + 1) / 10) for n in range(10)])
    seen = sample_of(batches, max_samples=1, num_kept=1)
    assert seen.num_samples == 4
    assert seen.num_samples_of_all == 20
    assert len(list(batches)) == 8
    assert len(seen.batches) == 1


def test_features_of_one_table_are_taken_together():
    collection = EmbeddingCollection(
        features=[
            EmbeddedFeature(feature="item", table="item"),
            EmbeddedFeature(feature="item", table="item", combiner="none", max_length=2),
        ],
        tables=[TableConfig(name="item", dim=2)],
    )
    found = table_ids(make_batch([[1, 2, 3], [], [4]]), collection)
    assert found["item"].tolist() == [1, 2, 3, 4, 2, 3, 4]


def test_ids_that_share_rows_are_one():
    collection = EmbeddingCollection(
        features=[EmbeddedFeature(feature="item", table="item")],
        tables=[TableConfig(name="item", dim=2, num_rows=3, out_of_range="hash")],
    )
    found = table_ids(make_batch([[1, 1 << 40], [1 << 41, 1 << 42]]), collection)
    assert set(found["item"].tolist()) <= {0, 1, 2}


def test_ids_that_come_back_grow_no_table_and_new_ones_grow_it_with_the_data():
    assert growth_power(100, 100, 2) == 0
    assert growth_power(200, 100, 2) == 1
    assert growth_power(100, 0, 2) == 0
    assert growth_power(100, 50, 1) == 0
    assert growth_power(4000, 2000, 4) == pytest.approx(0.5)


@pytest.mark.parametrize("exponent", [1.1, 1.5, 2.0])
def test_the_rows_of_skewed_ids_are_estimated_from_a_tenth_of_the_data(exponent):
    ids = np.random.default_rng(1).zipf(exponent, 200_000)
    ids = ids[ids < 1 << 40]
    batches = [
        make_batch(part.reshape(-1, 1).tolist(), progress=(n + 1) / 100)
        for n, part in enumerate(np.array_split(ids, 100))
    ]
    estimated = sample_of(batches, max_samples=len(ids) // 10).num_rows("item")
    assert estimated == pytest.approx(len(np.unique(ids)), rel=0.15)


def test_no_data_is_an_error():
    with pytest.raises(DataError, match="planning needs samples"):
        sample_of([])
