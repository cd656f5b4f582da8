"""Any mix of pooled features and sequences moves the rows as the slow twin does."""

import tempfile
from pathlib import Path

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetrec.core.batch import Batch
from fleetrec.core.cursor import Cursor
from fleetrec.core.jagged import KeyedJagged
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.lookup import Lookup
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.table import Initializer, RowOptimizer, TableConfig
from making import save_store
from reference.lookup import ReferenceLookup
from reference.store import ReferenceStore

COLUMNS = ("x", "y", "z")
TABLES = (
    TableConfig(name="grows", dim=2, initializer=Initializer(scale=0.5)),
    TableConfig(name="hashes", dim=2, num_rows=5, out_of_range="hash"),
    TableConfig(name="narrow", dim=1, num_rows=9),
)
any_id = st.integers(0, 8)
feature = st.builds(
    lambda column, table, combiner, max_length: EmbeddedFeature(
        feature=column,
        table=table,
        combiner=combiner,
        max_length=max_length if combiner == "none" else None,
    ),
    st.sampled_from(COLUMNS),
    st.sampled_from([table.name for table in TABLES]),
    st.sampled_from(["sum", "mean", "sqrtn", "none"]),
    st.none() | st.integers(1, 3),
)
# No sums of weights that are almost nothing: their quotients would be far apart.
weight = st.sampled_from([0.0, 0.5, 1.0, 3.0])
samples = st.lists(
    st.tuples(*(st.lists(st.tuples(any_id, weight), max_size=4) for _ in COLUMNS)), max_size=4
)
step = st.fixed_dictionaries(
    {
        "samples": samples,
        "weighted": st.booleans(),
        "seed": st.integers(0, 99),
        "absent": st.sets(st.integers(0, 5), max_size=2),
        "reload": st.booleans(),
    }
)


def make_batch(step) -> Batch:
    lists = [sample[column] for column in range(len(COLUMNS)) for sample in step["samples"]]
    pairs = [pair for some in lists for pair in some]
    lengths = torch.tensor([0, *(len(some) for some in lists)])
    weights = torch.tensor([w for _, w in pairs], dtype=torch.float32)
    ids = KeyedJagged(
        names=COLUMNS,
        values_N=torch.tensor([i for i, _ in pairs], dtype=torch.int64),
        offsets=lengths.cumsum(0),
        num_samples=len(step["samples"]),
        weights_N=weights if step["weighted"] else None,
    )
    return Batch(ids=ids, dense={}, cursor=Cursor())


def assert_close(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        torch.testing.assert_close(value.detach(), theirs[name], rtol=1e-4, atol=1e-5)


class Both:
    """The fast lookup and its twin, over tables of their own."""

    def __init__(self, features, optimizer, frozen):
        named = [
            EmbeddedFeature(
                feature=f.feature,
                table=f.table,
                combiner=f.combiner,
                max_length=f.max_length,
                name=f"{f.feature}_{i}",
            )
            for i, f in enumerate(features)
        ]
        self._collection = EmbeddingCollection(features=named, tables=TABLES)
        self._optimizer = optimizer
        self._frozen = frozen
        self.stores, self.twins = self._new_stores()
        self._look_up_in_stores()

    def _new_stores(self):
        rows = RowOptimizer(name=self._optimizer)
        return (
            {t.name: NativeStore(t, rows, seed=3) for t in TABLES},
            {t.name: ReferenceStore(t, self._optimizer, seed=3) for t in TABLES},
        )

    def _look_up_in_stores(self):
        self._fast = Lookup(self._collection, self.stores, frozen=self._frozen)
        self._slow = ReferenceLookup(self._collection, self.twins, frozen=self._frozen)

    def reload(self):
        saved, self.stores = self.stores, self._new_stores()[0]
        with tempfile.TemporaryDirectory() as folder:
            for name, store in self.stores.items():
                store.load(save_store(saved[name], Path(folder, name)))
        self._look_up_in_stores()

    def train(self, step):
        batch = make_batch(step)
        looked_up = self._fast.pull(batch, training=True)
        assert_close(looked_up.vectors, self._slow.pull(batch, training=True))
        leaves = [name for name, vector in looked_up.vectors.items() if vector.requires_grad]
        present = [name for i, name in enumerate(leaves) if i not in step["absent"]]
        generator = torch.Generator().manual_seed(step["seed"])
        grads = {
            name: torch.randn(looked_up.vectors[name].shape, generator=generator)
            for name in present
        }
        for name, grad in grads.items():
            looked_up.vectors[name].grad = grad
        self._fast.push(looked_up, lr=0.1)
        self._slow.push(batch, grads, lr=0.1)

    def evaluate(self, step):
        batch = make_batch(step)
        vectors = self._fast.pull(batch, training=False).vectors
        assert not any(vector.requires_grad for vector in vectors.values())
        assert_close(vectors, self._slow.pull(batch, training=False))


@settings(max_examples=150)
@given(
    st.lists(feature, min_size=1, max_size=5),
    st.sampled_from(["sgd", "adagrad", "adam", "adamw"]),
    st.sets(st.sampled_from([table.name for table in TABLES]), max_size=1),
    st.lists(step, min_size=1, max_size=4),
)
def test_any_mix_of_features_learns_as_its_slow_twin_does(features, optimizer, frozen, steps):
    both = Both(features, optimizer, frozen)
    for step in steps:
        both.train(step)
        if step["reload"]:
            both.reload()
        both.evaluate(step)
    for name, store in both.stores.items():
        assert_close(store.snapshot(), both.twins[name].snapshot())
