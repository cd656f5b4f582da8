"""Sides that a stage adds to batches: drawn by position, so the same after a resume."""

import numpy as np
import pytest
import torch

from fleetrec.config.features import DenseOptions, FeatureSetOptions, IdListOptions
from fleetrec.config.job import DatasetOptions
from fleetrec.core.errors import DataError
from fleetrec.data.loader import Loader
from fleetrec.data.plan import DataShard
from fleetrec.data.stages.uniform_negatives import UniformNegatives
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.lookup import Lookup
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.table import Initializer, RowOptimizer, TableConfig
from fleetrec.features.feature_set import FeatureSet
from making import save_store

NUM_ROWS = 240
NUM_ITEMS = 24
NUM_CLASSES = 4
ITEM = FeatureSet(
    FeatureSetOptions(features=(IdListOptions(name="item"), DenseOptions(name="price")))
)
READING = {
    "plain": {},
    "threads": {"thread_num": 2},
    "shuffled": {"shuffle_rows": 50},
    "filtered": {"sample_ratio": 0.8},
    "queue": {"kind": "QueueDataset", "thread_num": 2},
    "memory": {"kind": "InMemoryDataset"},
}


def make_stage(num_negatives=8):
    columns = {"item": list(range(NUM_ITEMS)), "price": [0.5 * i for i in range(NUM_ITEMS)]}
    return UniformNegatives.from_columns(columns, ITEM, num_negatives=num_negatives)


@pytest.fixture
def make_loader(tmp_path):
    """Users of class c see items of class c only."""
    rng = np.random.default_rng(0)
    for part in range(2):
        users = rng.integers(0, 40, NUM_ROWS // 2)
        items = rng.integers(0, NUM_ITEMS // NUM_CLASSES, NUM_ROWS // 2) * NUM_CLASSES
        items += users % NUM_CLASSES
        lines = [f"user:{u} item:{i}\n" for u, i in zip(users, items, strict=True)]
        (tmp_path / f"part-{part}").write_text("".join(lines))

    def make(*, shard=None, seed=0, **options):
        dataset = DatasetOptions(
            **{
                "name": "clicks",
                "data_path": str(tmp_path / "part-*"),
                "batch_size": 16,
                "sparse": ("user", "item"),
                **options,
            }
        )
        return Loader(dataset, seed=seed, shard=shard or DataShard(), stage=make_stage())

    return make


def drawn(loader, *, epoch=0, start=None):
    with loader.epoch(epoch, start=start) as batches:
        return [(b.side("negatives").ids["item"].values.tolist(), b.cursor) for b in batches]


def test_without_a_stage_a_batch_has_the_samples_only(make_loader):
    options = make_loader()._options
    with Loader(options, seed=0).epoch(0) as batches:
        assert list(next(batches).sides) == ["sample"]


def test_the_side_holds_items_of_the_catalogue_with_all_their_features(make_loader):
    loader = make_loader()
    with loader.epoch(0) as batches:
        for batch in batches:
            side = batch.side("negatives")
            items = side.ids["item"].values
            assert side.num_rows == 8
            assert side.dense["price"].flatten().tolist() == (0.5 * items).tolist()
    assert loader.inputs.sides["negatives"].sparse == ("item",)
    assert loader.inputs.sides["negatives"].dense == {"price": (1,)}


@pytest.mark.parametrize("reading", READING)
def test_draws_are_the_same_after_a_resume(make_loader, reading):
    whole = drawn(make_loader(**READING[reading]))
    for at in (0, len(whole) // 2):
        rest = drawn(make_loader(**READING[reading]), start=whole[at][1])
        assert rest == whole[at + 1 :]


def test_draws_do_not_depend_on_the_number_of_threads(make_loader):
    assert drawn(make_loader(thread_num=1)) == drawn(make_loader(thread_num=3))


def test_batches_epochs_seeds_and_workers_draw_differently(make_loader):
    first = [ids for ids, _ in drawn(make_loader())]
    assert len({tuple(ids) for ids in first}) == len(first)
    assert first[0] != drawn(make_loader(), epoch=1)[0][0]
    assert first[0] != drawn(make_loader(seed=1))[0][0]
    shares = [
        drawn(make_loader(shard=DataShard(index=i, count=2, by="batch")))[0][0] for i in range(2)
    ]
    assert shares[0] != shares[1]


def test_items_are_drawn_uniformly(make_loader):
    ids = [i for epoch in range(20) for ids, _ in drawn(make_loader(), epoch=epoch) for i in ids]
    counts = np.bincount(ids, minlength=NUM_ITEMS)
    expected = len(ids) / NUM_ITEMS
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    assert chi_square < 60, "with 23 degrees of freedom a larger one is rarer than 1 in 20,000"


def test_a_catalogue_without_items_is_refused():
    empty = {"item": np.zeros(0, np.int64), "price": np.zeros(0, np.float32)}
    with pytest.raises(DataError, match="catalogue of negative items is empty"):
        UniformNegatives.from_columns(empty, ITEM, num_negatives=1)


class TwoTowers:
    """Users and items in one space, trained by a softmax over the item and sampled negatives."""

    def __init__(self):
        tables = [
            TableConfig(name=name, dim=8, initializer=Initializer(kind="normal", scale=0.1))
            for name in ("users", "items")
        ]
        self.embeddings = EmbeddingCollection(
            features=[
                EmbeddedFeature(feature="user", table="users"),
                EmbeddedFeature(feature="item", table="items"),
                EmbeddedFeature(feature="item", table="items", side="negatives", name="negative"),
            ],
            tables=tables,
        )
        self.stores = {t.name: NativeStore(t, RowOptimizer(name="adam"), seed=0) for t in tables}
        self.lookup = Lookup(self.embeddings, self.stores)

    def step(self, batch):
        looked_up = self.lookup.pull(batch, training=True)
        embedded = self.embeddings(batch.with_embedded(looked_up.vectors))
        user_BD = embedded.pooled("user")
        positive_B1 = (user_BD * embedded.pooled("item")).sum(1, keepdim=True)
        logits = torch.cat([positive_B1, user_BD @ embedded.pooled("negative").T], dim=1)
        target_B = torch.zeros(len(user_BD), dtype=torch.int64)
        torch.nn.functional.cross_entropy(logits, target_B).backward()
        self.lookup.push(looked_up, lr=0.05)

    def save(self, folder):
        return {n: save_store(store, folder / n) for n, store in self.stores.items()}

    def load(self, stored):
        for name, store in self.stores.items():
            store.load(stored[name])


def run(model, loader, *, epoch, start=None, max_steps=None):
    """Train; returns the cursor behind the last step."""
    cursor = start
    with loader.epoch(epoch, start=start) as batches:
        for number, batch in enumerate(batches):
            if number == max_steps:
                break
            model.step(batch)
            cursor = batch.cursor
    return cursor


def test_a_model_with_two_sides_learns_which_items_belong_to_whom(make_loader):
    model = TwoTowers()
    for epoch in range(20):
        run(model, make_loader(shuffle_rows=100), epoch=epoch)
    users, items = (
        model.stores[name].pull(torch.arange(n), create=False)
        for name, n in (("users", 40), ("items", NUM_ITEMS))
    )
    best = (users @ items.T).argmax(dim=1)
    hits = (best % NUM_CLASSES == torch.arange(40) % NUM_CLASSES).float().mean()
    assert hits > 0.9, "a guess is right in one of four cases"


@pytest.mark.parametrize("reading", ["plain", "shuffled", "memory"])
def test_a_run_that_is_resumed_mid_epoch_equals_an_unbroken_one(make_loader, reading, tmp_path):
    options = READING[reading]
    unbroken = TwoTowers()
    run(unbroken, make_loader(**options), epoch=0)
    first = TwoTowers()
    cursor = run(first, make_loader(**options), epoch=0, max_steps=6)
    resumed = TwoTowers()
    resumed.load(first.save(tmp_path / "saved"))
    run(resumed, make_loader(**options), epoch=0, start=cursor)
    for name, store in unbroken.stores.items():
        expected, found = store.snapshot(), resumed.stores[name].snapshot()
        assert all(torch.equal(expected[c], found[c]) for c in expected), name
