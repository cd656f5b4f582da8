"""Lookups on arrays: the vectors of training, without torch."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from fleetrec.config.features import FeatureSetOptions, IdListOptions
from fleetrec.core.batch import Batch
from fleetrec.core.cursor import Cursor
from fleetrec.core.errors import DataError
from fleetrec.core.jagged import KeyedJagged
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.lookup import Lookup
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.table import RowOptimizer, TableConfig
from fleetrec.embedding.table_lookup import TableLookup
from fleetrec.features.feature_set import FeatureSet

COLLECTION = EmbeddingCollection(
    features=[
        EmbeddedFeature(feature="item", table="items", combiner="mean"),
        EmbeddedFeature(feature="history", table="items", combiner="none", max_length=2),
    ],
    tables=[TableConfig(name="items", dim=3)],
)
FEATURES = FeatureSet(
    FeatureSetOptions(features=(IdListOptions(name="item"), IdListOptions(name="history")))
)
COLUMNS = {"item": [[1, 2], [3]], "history": [[4, 5, 6], [1]]}


@pytest.fixture
def store():
    store = NativeStore(COLLECTION.tables["items"], RowOptimizer(), seed=0)
    store.pull(torch.arange(6), create=True)
    return store


def test_raw_columns_get_the_vectors_that_training_gives_them(store):
    keyed = FEATURES.transform(COLUMNS).keyed_ids()
    found = TableLookup(COLLECTION.layout, {"items": store.table}).look_up({"sample": keyed})
    ids = KeyedJagged(
        names=keyed.names,
        values_N=torch.from_numpy(keyed.ids),
        offsets=torch.from_numpy(keyed.offsets),
        num_samples=keyed.num_rows,
    )
    batch = Batch(ids=ids, dense={}, cursor=Cursor())
    expected = Lookup(COLLECTION, {"items": store}).pull(batch, training=False).vectors
    assert found.keys() == expected.keys()
    for name, vector in expected.items():
        assert np.array_equal(found[name], vector.numpy()), name


def test_inference_makes_no_rows(store):
    keyed = FEATURES.transform({"item": [[77]], "history": [[78]]}).keyed_ids()
    lookup = TableLookup(COLLECTION.layout, {"items": store.table})
    assert not lookup.look_up({"sample": keyed})["embedded_3"].any()
    assert len(store) == 6


def test_a_side_that_is_missing_is_named(store):
    lookup = TableLookup(COLLECTION.layout, {"items": store.table})
    with pytest.raises(DataError, match="no side 'sample'; it has other"):
        lookup.look_up({"other": FEATURES.transform(COLUMNS).keyed_ids()})


def test_lookups_need_no_torch():
    program = (
        "import sys\n"
        "import fleetrec.features.feature_set\n"
        "import fleetrec.embedding.table_lookup\n"
        "assert 'torch' not in sys.modules, 'torch was imported'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
