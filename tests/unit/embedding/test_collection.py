"""How models get at the vectors of a batch."""

import pytest
import torch

from fleetrec.core.batch import Batch
from fleetrec.core.cursor import Cursor
from fleetrec.core.jagged import KeyedJagged
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import TableConfig

TABLES = (TableConfig(name="linear", dim=1), TableConfig(name="factors", dim=2))


def make_collection(*features, tables=TABLES):
    return EmbeddingCollection(features=features, tables=tables)


def pooled(feature, table="factors", **options):
    return EmbeddedFeature(feature=feature, table=table, **options)


def sequence(feature, table="factors", **options):
    return EmbeddedFeature(feature=feature, table=table, combiner="none", **options)


def embed(collection, **vectors):
    """Vectors that tell columns apart: 0, 1, 2, ... in the first sample."""
    shapes = collection.zeros(2, max_length=3)
    made = {
        name: torch.arange(value.numel(), dtype=value.dtype).reshape(value.shape)
        for name, value in shapes.items()
    }
    nothing = torch.zeros(0, dtype=torch.int64)
    ids = KeyedJagged(names=(), values_N=nothing, offsets=torch.zeros(1), num_samples=2)
    batch = Batch(ids=ids, dense={}, cursor=Cursor(), embedded={**made, **vectors})
    return collection(batch)


def make_fm():
    """A linear term and factors over the same slots."""
    slots = ("a", "b", "c")
    linear = [pooled(slot, "linear", name=f"linear_{slot}") for slot in slots]
    return make_collection(*linear, *(pooled(slot) for slot in slots))


def test_a_feature_may_be_used_in_tables_of_several_widths():
    embedded = embed(make_fm())
    assert embedded.cat(["linear_a", "linear_b", "linear_c"])[0].tolist() == [0, 1, 2]
    assert embedded.stack(["a", "b", "c"])[0].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert embedded.pooled("b")[0].tolist() == [2, 3]
    assert embedded.pooled("linear_b").shape == (2, 1)


def test_everything_side_by_side_is_grouped_by_width():
    collection = make_fm()
    assert collection.out_dim == 9
    assert embed(collection).cat()[0].tolist() == [0, 1, 2, 0, 1, 2, 3, 4, 5]


def test_named_vectors_come_in_the_order_of_the_names():
    embedded = embed(make_fm())
    assert embedded.cat(["c", "a", "linear_b", "b"])[0].tolist() == [4, 5, 0, 1, 1, 2, 3]
    assert embedded.stack(["c", "a"])[0].tolist() == [[4, 5], [0, 1]]


def test_neighbours_are_views_and_all_of_a_width_is_the_leaf_itself():
    embedded = embed(make_fm())
    leaf = embedded.vectors["embedded_2"]
    assert embedded.cat(["a", "b", "c"]) is leaf
    assert embedded.cat(["b", "c"]).data_ptr() == leaf[:, 2:].data_ptr()
    assert embedded.stack(["b", "c"]).data_ptr() == leaf[:, 2:].data_ptr()


def test_a_sequence_has_vectors_lengths_and_a_mask():
    lengths = torch.tensor([2, 0])
    collection = make_collection(sequence("seen"), pooled("seen", combiner="mean"))
    embedded = embed(collection, lengths_seen=lengths)
    seen = embedded.sequence("seen")
    assert seen.x_BLD.shape == (2, 3, 2)
    assert torch.equal(seen.lengths_B, lengths)
    assert seen.mask_BL.tolist() == [[True, True, False], [False, False, False]]
    assert embedded.pooled("seen").shape == (2, 2)
    assert embedded.stack().shape == (2, 1, 2)


def test_a_width_of_sequences_alone_has_no_pooled_matrix():
    collection = make_collection(sequence("seen", max_length=2))
    assert {name: tuple(v.shape) for name, v in collection.zeros(4, max_length=3).items()} == {
        "sequence_seen": (4, 2, 2),
        "lengths_seen": (4,),
    }
    assert collection.out_dim == 0
    with pytest.raises(ValueError, match="no pooled vectors"):
        embed(collection).cat()


def test_names_must_tell_vectors_apart():
    with pytest.raises(ValueError, match="feature a: 'a' is pooled already; give one of them"):
        make_collection(pooled("a"), pooled("a", "linear"))
    with pytest.raises(ValueError, match="feature b: 'a' is a sequence already"):
        make_collection(sequence("a"), sequence("b", name="a"))


def test_unknown_names_are_refused_with_those_there_are():
    embedded = embed(make_collection(pooled("a"), sequence("b")))
    with pytest.raises(ValueError, match="'b' is not pooled; known: a"):
        embedded.pooled("b")
    with pytest.raises(ValueError, match="'a' is not a sequence; known: b"):
        embedded.sequence("a")


def test_vectors_of_several_widths_are_not_stacked():
    with pytest.raises(ValueError, match=r"one width, got \[1, 2\]"):
        embed(make_fm()).stack()


def test_a_length_limits_sequences_only():
    with pytest.raises(ValueError, match="max_length is for the combiner 'none'"):
        pooled("a", max_length=3)
    with pytest.raises(ValueError, match="max_length must be at least 1, got 0"):
        sequence("a", max_length=0)


def test_a_batch_that_was_not_looked_up_is_refused():
    collection = make_collection(sequence("seen"))
    ids = torch.zeros(0, dtype=torch.int64)
    empty = KeyedJagged(names=(), values_N=ids, offsets=torch.zeros(1), num_samples=2)
    with pytest.raises(ValueError, match=r"no \['sequence_seen'\] in batch.embedded"):
        collection(Batch(ids=empty, dense={}, cursor=Cursor()))


def test_a_growing_table_has_no_ids_to_hash():
    with pytest.raises(ValueError, match="table t: out_of_range 'hash' needs num_rows"):
        TableConfig(name="t", dim=1, out_of_range="hash")
