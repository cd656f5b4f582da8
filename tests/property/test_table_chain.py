"""A base and any deltas behind it hold what a dict of rows holds, whatever happened between."""

import tempfile
from pathlib import Path

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.table import RowOptimizer, TableConfig
from making import columns_of, stored_table
from reference.store import ReferenceStore

TABLE = TableConfig(name="t", dim=2)
ids = st.lists(st.integers(0, 9) | st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5)
operation = st.tuples(st.sampled_from(["train", "push", "evict"]), ids) | st.tuples(
    st.sampled_from(["delta", "base", "lost", "reload"]), st.just([])
)


class SavedStore:
    """A store, and where the chain of its snapshots lies."""

    def __init__(self, folder, optimizer):
        self._folder = folder
        self._make = lambda: NativeStore(TABLE, RowOptimizer(name=optimizer), seed=3)
        self.store = self._make()
        self._directories = []
        self._num_written = 0
        self.save("base")

    def save(self, kind):
        directory = self._folder / str(self._num_written)
        self._num_written += 1
        written = self.store.write(directory, parent="../before" if kind != "base" else None)
        if kind == "lost":
            return
        written.commit()
        self._directories = [*(self._directories if kind == "delta" else []), directory]
        self.stored = stored_table(*self._directories, name="t", written=written)

    def reload(self):
        self.save("delta")
        self.store = self._make()
        self.store.load(self.stored)


def apply(store, verb, what):
    chosen = torch.tensor(what)
    if verb == "train":
        store.pull(chosen, create=True)
    if verb == "evict":
        (store.evict if isinstance(store, ReferenceStore) else evict_native(store))(chosen)
    else:
        grads_ND = torch.linspace(-1, 1, 2 * len(what)).reshape(-1, 2)
        store.push(chosen, grads_ND, lr=0.1)


def evict_native(store):
    return lambda chosen: store.table.evict(chosen.numpy())


@settings(max_examples=60)
@given(st.sampled_from(["sgd", "adagrad", "adam"]), st.lists(operation, max_size=14))
def test_a_chain_holds_what_the_twin_holds(optimizer, operations):
    with tempfile.TemporaryDirectory() as folder:
        saved, twin = SavedStore(Path(folder), optimizer), ReferenceStore(TABLE, optimizer, seed=3)
        for verb, what in operations:
            if verb == "reload":
                saved.reload()
            elif verb in ("delta", "base", "lost"):
                saved.save(verb)
            else:
                apply(saved.store, verb, what)
                apply(twin, verb, what)
        saved.reload()
        want, loaded = twin.snapshot(), saved.store.snapshot()
        streamed = columns_of(saved.stored)
        assert torch.equal(loaded["ids"], want["ids"])
        for name in ("rows", "state", "shows"):
            torch.testing.assert_close(loaded[name], want[name], rtol=1e-4, atol=1e-5)
            if len(want["ids"]):
                assert streamed[name].tolist() == loaded[name].tolist()
