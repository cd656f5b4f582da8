"""From a batch to the vectors of fields, in both layouts."""

import pytest
import torch

from fleetrec.core.batch import Batch, Inputs
from fleetrec.core.cursor import Cursor
from fleetrec.core.errors import DataError
from fleetrec.core.jagged import KeyedJagged
from fleetrec.models.fields import FieldEmbeddings, VectorOptions, num_fields

INDEXED = Inputs(sparse=("label", "feat_idx"), dense={"feat_value": (3,)})
SLOTS = Inputs(sparse=("click", "a", "b"), dense={"age": (1,), "x": (2,)})


def make_batch(*, dense, embedded):
    num_samples = len(next(iter(dense.values())))
    ids = KeyedJagged(
        names=(),
        values_N=torch.zeros(0, dtype=torch.int64),
        offsets=torch.zeros(1, dtype=torch.int64),
        num_samples=num_samples,
    )
    return Batch(ids=ids, dense=dense, cursor=Cursor(), embedded=embedded)


def indexed_batch(rows_BLD, lengths):
    return make_batch(
        dense={"feat_value": torch.tensor([[1.0, 2.0, 0.5], [0.0, 1.0, 1.0]])},
        embedded={
            "sequence_factors": rows_BLD,
            "lengths_factors": torch.tensor(lengths),
            "sequence_first_order": rows_BLD[:, :, :1],
            "lengths_first_order": torch.tensor(lengths),
        },
    )


def test_a_field_of_the_indexed_layout_is_row_times_value():
    fields = FieldEmbeddings(VectorOptions(), inputs=INDEXED, dim=2, first_order=True)
    rows = torch.arange(12.0).reshape(2, 3, 2)
    batch = indexed_batch(rows, [3, 3])
    values = batch.dense["feat_value"]
    assert torch.equal(fields.vectors(batch), rows * values[:, :, None])
    assert torch.equal(fields.first_order(batch), rows[:, :, 0] * values)


def test_a_sample_without_ids_has_zero_vectors():
    fields = FieldEmbeddings(VectorOptions(), inputs=INDEXED, dim=2, first_order=True)
    batch = indexed_batch(torch.zeros(2, 1, 2), [0, 0])
    assert torch.equal(fields.vectors(batch), torch.zeros(2, 3, 2))


def test_a_wrong_number_of_ids_is_refused():
    fields = FieldEmbeddings(VectorOptions(), inputs=INDEXED, dim=2, first_order=True)
    with pytest.raises(DataError, match=r"'feat_idx': expected 3 ids per sample.*got 2"):
        fields.vectors(indexed_batch(torch.zeros(2, 3, 2), [3, 2]))


def test_dense_values_are_fields_beside_the_slots():
    fields = FieldEmbeddings(VectorOptions(), inputs=SLOTS, dim=2)
    pooled = torch.arange(8.0).reshape(2, 4)
    dense = {"age": torch.tensor([[1.0], [2.0]]), "x": torch.tensor([[3.0, 4.0], [5.0, 6.0]])}
    x = fields.vectors(make_batch(dense=dense, embedded={"embedded_2": pooled}))
    assert fields.names == ("a", "b", "age", "x", "x")
    assert fields.num_fields == num_fields(SLOTS) == 5
    assert torch.equal(x[:, :2], pooled.reshape(2, 2, 2))
    weights = fields.dense_rows["factors"]
    assert torch.equal(x[1, 4], weights[2] * 6.0)


def test_dense_values_may_stay_apart():
    fields = FieldEmbeddings(VectorOptions(), inputs=SLOTS, dim=2, dense="apart")
    dense = {"age": torch.tensor([[1.0]]), "x": torch.tensor([[3.0, 4.0]])}
    batch = make_batch(dense=dense, embedded={"embedded_2": torch.zeros(1, 4)})
    assert (fields.num_fields, fields.dense_dim) == (2, 3)
    assert fields.dense(batch).tolist() == [[1.0, 3.0, 4.0]]


def test_weights_and_vectors_of_one_width_do_not_mix():
    fields = FieldEmbeddings(VectorOptions(), inputs=SLOTS, dim=1, first_order=True, dense="apart")
    dense = {"age": torch.zeros(1, 1), "x": torch.zeros(1, 2)}
    batch = make_batch(dense=dense, embedded={"embedded_1": torch.tensor([[1.0, 2.0, 3.0, 4.0]])})
    assert fields.first_order(batch).tolist() == [[1.0, 2.0]]
    assert fields.vectors(batch).flatten().tolist() == [3.0, 4.0]


def test_the_penalty_is_the_mean_l1_norm_of_first_order_weights():
    fields = FieldEmbeddings(VectorOptions(), inputs=INDEXED, dim=2, first_order=True)
    rows = torch.tensor([[[1.0, 9], [-2.0, 9], [3.0, 9]], [[0.0, 9], [0.0, 9], [-4.0, 9]]])
    assert fields.penalty(indexed_batch(rows, [3, 3])).item() == (6 + 4) / 2


@pytest.mark.parametrize(
    ("options", "inputs", "message"),
    [
        (VectorOptions(num_field=4), INDEXED, "num_field says 4, the data has 3"),
        (VectorOptions(), Inputs(dense={"x": (2,)}), "must begin with the label"),
        (VectorOptions(), Inputs(sparse=("label",)), "the data has the label only"),
        (
            VectorOptions(),
            Inputs(sparse=("label", "feat_idx", "a"), dense={"feat_value": (3,)}),
            "leave out the other sparse_slots",
        ),
    ],
)
def test_what_does_not_fit_is_refused(options, inputs, message):
    with pytest.raises(ValueError, match=message):
        FieldEmbeddings(options, inputs=inputs, dim=2)


def test_fields_are_found_by_name():
    fields = FieldEmbeddings(VectorOptions(), inputs=SLOTS, dim=2)
    assert fields.places(["x", "a"]) == [0, 3, 4]
    with pytest.raises(ValueError, match=r"no field is called 'c'; known: a, b, age"):
        fields.places(["c"])
