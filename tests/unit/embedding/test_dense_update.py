"""Dense updates: every row of a table moves in every step, as in torch on the whole table."""

import dataclasses

import numpy as np
import pytest
import torch

from fleetrec.core.batch import Batch
from fleetrec.core.cursor import Cursor
from fleetrec.core.jagged import KeyedJagged
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.lookup import Lookup
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.table import RowOptimizer, TableConfig, TableOptimizer
from making import save_store

NUM_ROWS, DIM, LR = 7, 3, 0.05
TABLE = TableConfig(name="t", dim=DIM, num_rows=NUM_ROWS, is_dense=True)
STEPS = ([1, 2], [2], [5], [], [0, 1, 6], [2], [5, 3])
TORCH = {
    "adam": lambda p: torch.optim.Adam(p, lr=LR, eps=1e-8),
    "sgd": lambda p: torch.optim.SGD(p, lr=LR),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=LR, eps=1e-6),
    "momentum": lambda p: torch.optim.SGD(p, lr=LR, momentum=0.9),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=LR),
}


def gradient(step: int) -> torch.Tensor:
    """Of the whole table; zero but for the rows of the step."""
    grad = torch.zeros(NUM_ROWS, DIM)
    made = torch.randn(NUM_ROWS, DIM, generator=torch.Generator().manual_seed(step))
    grad[STEPS[step]] = made[STEPS[step]] * 10.0 ** -(step % 3 * 3)  # eps matters in some steps
    return grad


def train(store: NativeStore, steps) -> None:
    for step in steps:
        ids = torch.tensor(STEPS[step], dtype=torch.int64)
        store.pull(ids, create=True)
        store.push(ids, gradient(step)[ids], lr=LR)


def rows_of(store: NativeStore) -> torch.Tensor:
    return store.pull(torch.arange(NUM_ROWS), create=True)


@pytest.mark.parametrize("name", TORCH)
def test_all_rows_are_those_of_torch_on_the_whole_table(name):
    store = NativeStore(TABLE, RowOptimizer(name=name), seed=0)
    weight = torch.nn.Parameter(rows_of(NativeStore(TABLE, RowOptimizer(), seed=0)))
    optimizer = TORCH[name]([weight])
    for step in range(len(STEPS)):
        weight.grad = gradient(step)
        optimizer.step()
    train(store, range(len(STEPS)))
    torch.testing.assert_close(rows_of(store), weight.detach(), rtol=1e-5, atol=1e-7)


def test_a_lazy_table_ends_elsewhere():
    lazy = NativeStore(dataclasses.replace(TABLE, is_dense=False), RowOptimizer(), seed=0)
    dense = NativeStore(TABLE, RowOptimizer(), seed=0)
    for store in (lazy, dense):
        train(store, range(len(STEPS)))
    assert (rows_of(lazy) - rows_of(dense)).abs().max() > LR / 2


def test_a_table_that_was_saved_continues_with_the_same_bits(tmp_path):
    whole, half = (NativeStore(TABLE, RowOptimizer(), seed=0) for _ in range(2))
    train(whole, range(len(STEPS)))
    train(half, range(4))
    saved = save_store(half, tmp_path / "half")
    other = NativeStore(TABLE, RowOptimizer(), seed=0)
    other.load(saved)
    train(other, range(4, len(STEPS)))
    assert torch.equal(rows_of(other), rows_of(whole))


def test_a_batch_moves_rows_that_it_does_not_have():
    collection = EmbeddingCollection(
        features=[EmbeddedFeature(feature="item", table="t")], tables=[TABLE]
    )
    store, twin = (NativeStore(TABLE, RowOptimizer(), seed=0) for _ in range(2))
    lookup = Lookup(collection, {"t": store})
    for ids in ([1, 2], [3, 3]):
        batch = Batch(
            ids=KeyedJagged(
                names=("item",),
                values_N=torch.tensor(ids),
                offsets=torch.tensor([0, 1, 2]),
                num_samples=2,
            ),
            dense={},
            cursor=Cursor(),
        )
        looked_up = lookup.pull(batch, training=True)
        (vectors,) = looked_up.vectors.values()
        vectors.grad = torch.ones_like(vectors)
        lookup.push(looked_up, lr=dict.fromkeys(collection.groups, LR))
        unique, counts = np.unique(ids, return_counts=True)
        twin.pull(torch.tensor(unique), create=True)
        grads = torch.tensor(counts, dtype=torch.float32)[:, None].expand(-1, DIM).contiguous()
        twin.push(torch.tensor(unique), grads, lr=LR)
    before = NativeStore(TABLE, RowOptimizer(), seed=0)
    moved = (rows_of(store) - rows_of(before)).abs().max(dim=1).values
    assert moved[1] > 1.5 * LR  # by its gradient, and by the moments of it
    assert torch.equal(rows_of(store), rows_of(twin))


def test_what_would_change_rows_that_were_never_looked_up_is_refused():
    with pytest.raises(ValueError, match="adamw has no dense update"):
        TABLE.row_optimizer("adamw", {})
    rule = RowOptimizer(name="adam", guards={"l2": 0.1})
    own = dataclasses.replace(TABLE, own_optimizer=TableOptimizer(rule=rule, lr=0.1))
    with pytest.raises(ValueError, match="l2 of rows has no dense update"):
        own.row_optimizer("sgd", {})


def test_a_table_without_a_size_has_no_dense_update():
    with pytest.raises(ValueError, match="tables of fixed size"):
        TableConfig(name="t", dim=1, is_dense=True)
