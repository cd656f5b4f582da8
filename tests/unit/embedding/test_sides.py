"""Tables that several sides of a batch look up: one gradient and one step per row."""

import numpy as np
import pytest
import torch

from fleetrec.core.batch import Batch, Side
from fleetrec.core.cursor import Cursor
from fleetrec.core.errors import DataError
from fleetrec.core.jagged import KeyedJagged
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.lookup import Lookup
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.remote_lookup import RemoteLookup, Rows
from fleetrec.embedding.table import Admission, Initializer, RowOptimizer, TableConfig
from reference.row_optimizer import OPTIMIZERS

LR = 0.1
DIM = 3
FEATURES = (
    EmbeddedFeature(feature="item", table="items"),
    EmbeddedFeature(feature="user", table="users"),
    EmbeddedFeature(feature="item", table="items", side="negatives", name="negative"),
    EmbeddedFeature(
        feature="history", table="items", side="negatives", combiner="none", name="history"
    ),
)


def make_collection(**options):
    tables = [
        TableConfig(name=name, dim=DIM, initializer=Initializer(kind="normal", scale=1), **options)
        for name in ("items", "users")
    ]
    return EmbeddingCollection(features=FEATURES, tables=tables)


def make_stores(collection, optimizer="adam"):
    return {
        name: NativeStore(table, RowOptimizer(name=optimizer), seed=0)
        for name, table in collection.tables.items()
    }


def keyed(names, lists):
    flat = [one for column in lists for one in column]
    return KeyedJagged(
        names=names,
        values_N=torch.tensor([i for one in flat for i in one], dtype=torch.int64),
        offsets=torch.tensor([0, *(len(one) for one in flat)]).cumsum(0),
        num_samples=len(lists[0]),
    )


def make_batch(seed, *, num_samples=4, num_negatives=7):
    rng = np.random.default_rng(seed)

    def lists(num_rows, low):
        return [rng.integers(0, 8, rng.integers(low, 3)).tolist() for _ in range(num_rows)]

    negatives = [lists(num_negatives, 1), lists(num_negatives, 0)]
    return Batch(
        ids=keyed(("user", "item"), [lists(num_samples, 1), lists(num_samples, 1)]),
        dense={},
        other_sides={"negatives": Side(ids=keyed(("item", "history"), negatives))},
        cursor=Cursor(),
    )


def loss_of(vectors):
    weights = torch.arange(1.0, DIM + 1)
    parts = [vectors["embedded_3"], vectors["embedded_3_negatives"], vectors["sequence_history"]]
    return sum((x.reshape(-1, DIM) * weights).square().sum() for x in parts)


class Twin:
    """Both tables as dicts: gradients of all sides are summed by id, then each row moves once."""

    def __init__(self, optimizer, first_rows):
        self._optimizer = OPTIMIZERS[optimizer]()
        self.rows = {name: dict(rows) for name, rows in first_rows.items()}
        self._state = {
            name: {i: self._optimizer.new_state(DIM) for i in rows}
            for name, rows in self.rows.items()
        }

    def step(self, batch):
        grads = {"items": {}, "users": {}}
        weights = np.arange(1.0, DIM + 1)

        def add(table, ids, vector):
            for i in ids:
                grads[table][i] = grads[table].get(i, 0) + 2 * weights**2 * vector

        def row(table, i):
            return np.array(self.rows[table][i])

        for side, table, feature in (
            ("sample", "items", "item"),
            ("sample", "users", "user"),
            ("negatives", "items", "item"),
        ):
            jagged = batch.side(side).ids[feature]
            for ids in jagged.values.split(jagged.lengths().tolist()):
                add(table, ids.tolist(), sum(row(table, i) for i in ids.tolist()))
        for i in batch.side("negatives").ids["history"].values.tolist():
            add("items", [i], row("items", i))
        for table, by_id in grads.items():
            for i, grad in by_id.items():
                self.rows[table][i], self._state[table][i] = self._optimizer.update(
                    self.rows[table][i], self._state[table][i], grad.tolist(), LR
                )


def rows_of(store):
    found = store.snapshot()
    return dict(zip(found["ids"].tolist(), found["rows"].tolist(), strict=True))


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "adam", "momentum"])
def test_rows_of_a_shared_table_move_once_by_the_sum_of_all_sides(optimizer):
    collection = make_collection()
    stores = make_stores(collection, optimizer)
    every_id = torch.arange(8)
    first = {
        name: dict(enumerate(store.pull(every_id, create=True).tolist()))
        for name, store in stores.items()
    }
    lookup, twin = Lookup(collection, stores), Twin(optimizer, first)
    for seed in range(4):
        batch = make_batch(seed)
        looked_up = lookup.pull(batch, training=True)
        loss_of(looked_up.vectors).backward()
        lookup.push(looked_up, lr=LR)
        twin.step(batch)
    for name, store in stores.items():
        found = rows_of(store)
        for i, expected in twin.rows[name].items():
            assert found[i] == pytest.approx(expected, rel=1e-4, abs=1e-5), (name, i)


def test_groups_are_looked_up_by_side_and_evaluation_agrees_with_training():
    collection = make_collection()
    lookup = Lookup(collection, make_stores(collection))
    batch = make_batch(0)
    trained = lookup.pull(batch, training=True)
    assert trained.vectors["embedded_3"].shape == (4, 2 * DIM)
    assert trained.vectors["embedded_3_negatives"].shape == (7, DIM)
    evaluated = lookup.pull(batch, training=False)
    for name, vector in trained.vectors.items():
        assert torch.equal(vector, evaluated.vectors[name]), name


def test_impressions_of_all_sides_count_towards_admission():
    collection = make_collection(admission=Admission(kind="count", threshold=2))
    stores = make_stores(collection)
    lookup = Lookup(collection, stores)
    batch = Batch(
        ids=keyed(("user", "item"), [[[1]], [[5]]]),
        dense={},
        other_sides={"negatives": Side(ids=keyed(("item", "history"), [[[5], [6]], [[], []]]))},
        cursor=Cursor(),
    )
    looked_up = lookup.pull(batch, training=True)
    loss_of(looked_up.vectors).backward()
    lookup.push(looked_up, lr=LR)
    assert list(rows_of(stores["items"])) == [5], "seen once on each side; 6 was seen once"


def test_a_frozen_table_that_is_shared_does_not_move():
    collection = make_collection()
    stores = make_stores(collection)
    stores["items"].pull(torch.arange(8), create=True)
    before = stores["items"].snapshot()
    lookup = Lookup(collection, stores, frozen=["items"])
    looked_up = lookup.pull(make_batch(0), training=True)
    loss_of(looked_up.vectors).backward()
    lookup.push(looked_up, lr=LR)
    after = stores["items"].snapshot()
    assert all(torch.equal(before[column], after[column]) for column in before)


def test_fetched_rows_give_the_same_vectors_and_steps():
    collection = make_collection()
    local_stores, held = make_stores(collection), make_stores(collection)
    local = Lookup(collection, local_stores)
    remote = RemoteLookup(collection, make_stores(collection))

    def fetch(listed, *, training):
        found = {
            name: held[name].table.read(its.ids_N, as_new=training) for name, its in listed.items()
        }
        return {name: Rows(rows_ND=rows, is_there_N=there) for name, (rows, there) in found.items()}

    assert remote.table_names == ["items", "users"]
    for seed in range(4):
        batch = make_batch(seed)
        here = local.pull(batch, training=True)
        there = remote.fetch(batch, fetch, training=True)
        assert here.vectors.keys() == there.vectors.keys()
        for name, vector in here.vectors.items():
            assert torch.equal(vector, there.vectors[name]), name
        for looked_up in (here, there):
            loss_of(looked_up.vectors).backward()
        local.push(here, lr=LR)
        for name, update in remote.sum(there).items():
            ids = update.ids
            held[name].table.count_impressions(ids.ids_N, ids.shows_N, ids.clicks_N, now=0)
            held[name].table.push(ids.ids_N[: len(update.grads_MD)], update.grads_MD, lr=LR)
        for name, store in held.items():
            mine, theirs = local_stores[name].snapshot(), store.snapshot()
            assert all(torch.equal(mine[column], theirs[column]) for column in mine), name


def test_a_feature_that_a_side_lacks_is_named_with_the_side():
    collection = make_collection()
    batch = make_batch(0)
    bare = Side(ids=keyed(("price",), [[[1]]]))
    lacking = Batch(ids=batch.ids, dense={}, cursor=Cursor(), other_sides={"negatives": bare})
    with pytest.raises(DataError, match=r"\['item', 'history'\]; the side 'negatives' has"):
        Lookup(collection, make_stores(collection)).pull(lacking, training=True)


def test_vectors_of_two_sides_cannot_be_concatenated():
    collection = make_collection()
    lookup = Lookup(collection, make_stores(collection))
    batch = make_batch(0)
    embedded = collection(batch.with_embedded(lookup.pull(batch, training=False).vectors))
    assert embedded.cat().shape == (4, 2 * DIM)
    assert embedded.stack().shape == (4, 2, DIM)
    assert embedded.pooled("negative").shape == (7, DIM)
    with pytest.raises(ValueError, match="vectors of one side, got those of negatives, sample"):
        embedded.cat(["item", "negative"])
