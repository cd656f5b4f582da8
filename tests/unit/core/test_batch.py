import pytest
import torch

from fleetrec.core.batch import SAMPLE, Batch, Inputs, Side
from fleetrec.core.cursor import Cursor
from fleetrec.core.errors import DataError
from fleetrec.core.jagged import KeyedJagged


def make_side(name, num_rows, *, weighted=False):
    return Side(
        ids=KeyedJagged(
            names=(name,),
            values_N=torch.arange(num_rows),
            offsets=torch.arange(num_rows + 1),
            num_samples=num_rows,
            weights_N=torch.ones(num_rows) if weighted else None,
        ),
        dense={"price": torch.rand(num_rows, 1)},
    )


def make_batch():
    sample = make_side("user", 3)
    return Batch(
        ids=sample.ids,
        dense=sample.dense,
        other_sides={"negatives": make_side("item", 5, weighted=True)},
        cursor=Cursor(),
        weights_B=torch.ones(3),
        embedded={"embedded_2": torch.rand(3, 2)},
    )


def test_the_samples_are_one_side_of_a_batch():
    batch = make_batch()
    assert list(batch.sides) == [SAMPLE, "negatives"]
    assert batch.side(SAMPLE).ids is batch.ids
    assert batch.side(SAMPLE).dense is batch.dense
    assert (batch.num_samples, batch.side("negatives").num_rows) == (3, 5)


def test_a_side_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(DataError, match="no side 'positives'; it has sample, negatives"):
        make_batch().side("positives")


def test_a_further_side_cannot_replace_the_samples():
    side = make_side("user", 1)
    with pytest.raises(ValueError, match="cannot be called 'sample'"):
        Batch(ids=side.ids, dense={}, cursor=Cursor(), other_sides={SAMPLE: side})


def test_tensors_have_names_and_all_of_them_are_mapped():
    batch = make_batch()
    names = {
        "sample/ids",
        "sample/offsets",
        "sample/dense/price",
        "negatives/ids",
        "negatives/offsets",
        "negatives/weights",
        "negatives/dense/price",
        "embedded/embedded_2",
        "weights",
    }
    assert set(batch.tensors()) == names
    asked = []

    def double(name, tensor):
        asked.append(name)
        return 2 * tensor

    doubled = batch.map_tensors(double)
    assert sorted(asked) == sorted(names)
    for name, tensor in batch.tensors().items():
        assert torch.equal(doubled.tensors()[name], 2 * tensor), name


def test_a_mapped_batch_finds_its_labels_again():
    batch = make_batch()
    before = batch.label("price")
    assert torch.equal(batch.map_tensors(lambda _, x: x + 1).label("price"), before + 1)


def test_a_blank_side_has_one_row_of_the_declared_features():
    side = Side.blank(Inputs(sparse=("a", "b"), dense={"x": (2,)}))
    assert side.num_rows == 1
    assert side.ids["b"].values.tolist() == [0]
    assert side.dense["x"].tolist() == [[0, 0]]
