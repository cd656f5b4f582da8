"""Which items samplers draw, how often, and which never."""

import collections

import numpy as np
import pyarrow as pa
import pytest

from fleetrec.config.features import BucketOptions, FeatureOptions, FeatureSetOptions
from fleetrec.config.job import DatasetOptions
from fleetrec.config.samplers import OWNER, SAMPLED, SLOT, SamplerOptions
from fleetrec.core.errors import DataError
from fleetrec.core.sides import NEGATIVES
from fleetrec.data.block import Block, SlotCounts
from fleetrec.data.columns import to_side
from fleetrec.data.stages.item_negatives import ItemNegatives
from fleetrec.features.feature_set import FeatureSet

NUM_ITEMS = 20
CHI_SQUARE_999 = 43.8  # of 19 degrees of freedom


def dataset():
    feature = FeatureOptions(name="item", columns=("item",), buckets=BucketOptions(num_buckets=100))
    return DatasetOptions(
        name="d", data_path="x", batch_size=4, sparse=("item",), features=(feature,)
    )


def files(folder, *, weights=None):
    lines = ["id:int64\tweight:float\tfeature:string"]
    lines += [
        f"{item}\t{1.0 if weights is None else weights[item]}\t{item}:x{item}"
        for item in range(NUM_ITEMS)
    ]
    (folder / "items").write_text("\n".join(lines) + "\n")
    edges = [f"{user}\t{item}\t1.0" for user in range(4) for item in range(user, user + 5)]
    head = "userid:int64\titemid:int64\tweight:float"
    (folder / "edges").write_text("\n".join([head, *edges]) + "\n")
    return folder


def stage(folder, **options):
    filled = {
        "kind": "not_in_batch",
        "num_samples": 50,
        "item_path": str(folder / "items"),
        "item_column": "item",
        "user_column": "user",
        "attributes": ("item", "brand"),
        **options,
    }
    return ItemNegatives.open(SamplerOptions.model_validate(filled), dataset())


def block(items, users):
    features = FeatureSet(
        FeatureSetOptions(
            features=tuple(
                FeatureOptions(name=f"{SAMPLED}{name}", columns=(name,))
                for name in ("item", "user")
            )
        )
    )
    columns = {"item": pa.array(map(str, items)), "user": pa.array(map(str, users))}
    values = features.transform(columns)
    side = to_side([values], sparse=tuple(values.ids), dense=())
    counts = SlotCounts(num_samples=len(items), seen=np.zeros(2, np.int64))
    return Block(ids=side.ids, dense={}, counts=counts)


def drawn(made):
    side = made.sides[NEGATIVES]
    return side.ids["item"].values.numpy(), side.dense[OWNER].flatten(), side.dense[SLOT].flatten()


@pytest.mark.parametrize("kind", ["not_in_batch", "not_in_batch_uniform"])
def test_items_of_the_batch_are_never_drawn(tmp_path, kind):
    sampler = stage(files(tmp_path), kind=kind, num_samples=15)
    for seed in range(20):
        found, owner, _ = drawn(sampler(block([3, 5, 7], [0, 1, 2]), np.random.default_rng(seed)))
        assert not {3, 5, 7} & set(found.tolist())
        assert (owner == -1).all()
        if kind == "not_in_batch_uniform":
            assert len(set(found.tolist())) == 15


def test_items_are_drawn_by_their_weight(tmp_path):
    weights = [1.0 + item % 4 for item in range(NUM_ITEMS)]
    sampler = stage(files(tmp_path, weights=weights), num_samples=20_000)
    found, _, _ = drawn(sampler(block([99], [0]), np.random.default_rng(0)))
    counts = collections.Counter(found.tolist())
    expected = np.array(weights) / sum(weights) * len(found)
    seen = np.array([counts[item] for item in range(NUM_ITEMS)])
    assert ((seen - expected) ** 2 / expected).sum() < CHI_SQUARE_999


def test_a_user_gets_no_item_that_it_has_an_edge_to(tmp_path):
    folder = files(tmp_path)
    sampler = stage(folder, kind="without_edge", positive_path=str(folder / "edges"))
    users = [0, 1, 2, 3]
    found, _, _ = drawn(sampler(block([9, 9, 9, 9], users), np.random.default_rng(0)))
    for number, item in enumerate(found.tolist()):
        user = users[number % 4]
        assert item not in range(user, user + 5)


def test_hard_negatives_follow_with_their_owner(tmp_path):
    folder = files(tmp_path)
    sampler = stage(folder, num_samples=6, hard_path=str(folder / "edges"), num_hard=3)
    found, owner, slot = drawn(sampler(block([9, 9], [1, 77]), np.random.default_rng(0)))
    assert owner[:6].tolist() == [-1] * 6
    assert owner[6:].tolist() == [0, 0, 0]
    assert slot[6:].tolist() == [0, 1, 2]
    assert set(found[6:].tolist()) <= set(range(1, 6))


def test_equal_generators_draw_equal_items(tmp_path):
    sampler = stage(files(tmp_path))
    one, two = (drawn(sampler(block([1], [0]), np.random.default_rng([4, 2])))[0] for _ in range(2))
    assert one.tolist() == two.tolist()


def test_a_catalogue_that_is_all_in_the_batch_is_drawn_from_anyway(tmp_path):
    sampler = stage(files(tmp_path), num_samples=5)
    all_items = block(range(NUM_ITEMS), [0] * NUM_ITEMS)
    assert len(drawn(sampler(all_items, np.random.default_rng(0)))[0]) == 5


def test_an_item_without_all_attributes_is_refused(tmp_path):
    folder = files(tmp_path)
    (folder / "items").write_text("1\t1.0\t1:x1\n2\t1.0\t2\n")
    with pytest.raises(DataError, match="item 2: expected 2 attributes"):
        stage(folder)
