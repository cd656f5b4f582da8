"""Any sequence of operations gives equal rows in the fast store and in its slow twin."""

import tempfile
from pathlib import Path

import torch
from hypothesis import given
from hypothesis import strategies as st

from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.table import Initializer, RowOptimizer, TableConfig
from making import save_store
from reference.row_optimizer import OPTIMIZERS
from reference.store import ReferenceStore

DIM = 2
any_id = st.integers(0, 5) | st.integers(-(2**63), 2**63 - 1)
unique_ids = st.lists(any_id, max_size=5, unique=True)
grad = st.floats(-10, 10, width=32).filter(lambda g: g == 0 or abs(g) > 1e-3)
lr = st.sampled_from([0.001, 0.1, 1.0])
operation = (
    st.tuples(st.just("pull"), unique_ids, st.booleans())
    | st.tuples(st.just("push"), st.lists(st.tuples(grad, grad), min_size=5, max_size=5), lr)
    | st.tuples(st.just("save"), st.none(), st.none())
    | st.tuples(st.just("load"), st.none(), st.none())
)
tables = st.builds(
    lambda kind: TableConfig(name="t", dim=DIM, initializer=Initializer(kind=kind, scale=0.1)),
    st.sampled_from(["uniform", "normal"]),
)


class Driver:
    """Applies operations to one store; pushes go to the ids that were created last."""

    def __init__(self, store, *, save, load):
        self._store = store
        self._save = save
        self._load = load
        self._saved = save(store)
        self._saved_ids = torch.zeros(0, dtype=torch.int64)
        self._ids = torch.zeros(0, dtype=torch.int64)

    def apply(self, verb, what, how):
        """Return everything that can be seen of the store afterwards."""
        rows = torch.zeros(0, DIM)
        if verb == "pull":
            pulled = torch.tensor(what, dtype=torch.int64)
            rows = self._store.pull(pulled, create=how)
            self._ids = pulled if how else self._ids
        elif verb == "push":
            grads_ND = torch.tensor(what)[: len(self._ids)]
            self._store.push(self._ids, grads_ND, lr=how)
        elif verb == "save":
            self._saved, self._saved_ids = self._save(self._store), self._ids
        else:
            self._load(self._store, self._saved)
            self._ids = self._saved_ids
        return rows, self._store.snapshot(), len(self._store)


class Files:
    """Saves a native store, each time in a folder of its own."""

    def __init__(self, folder):
        self._folder = Path(folder)

    def save(self, store):
        return save_store(store, self._folder / str(len(list(self._folder.iterdir()))))


@given(tables, st.sampled_from(sorted(OPTIMIZERS)), st.lists(operation, max_size=12))
def test_both_stores_show_the_same_after_every_operation(table, optimizer, operations):
    with tempfile.TemporaryDirectory() as folder:
        native = NativeStore(table, RowOptimizer(name=optimizer), seed=3)
        twin = ReferenceStore(table, optimizer, seed=3)
        fast = Driver(native, save=Files(folder).save, load=NativeStore.load)
        slow = Driver(twin, save=ReferenceStore.snapshot, load=ReferenceStore.restore)
        for verb, what, how in operations:
            check_same(fast.apply(verb, what, how), slow.apply(verb, what, how))


def check_same(got, want):
    (rows, snapshot, length), (want_rows, want_snapshot, want_length) = got, want
    assert length == want_length
    torch.testing.assert_close(rows, want_rows, rtol=1e-4, atol=1e-5)
    assert snapshot.keys() == want_snapshot.keys()
    assert torch.equal(snapshot["ids"], want_snapshot["ids"])
    for name, column in snapshot.items():
        torch.testing.assert_close(column, want_snapshot[name], rtol=1e-4, atol=1e-5)
