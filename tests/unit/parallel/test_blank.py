"""Batches for ranks that have no data in a step."""

import dataclasses

import torch

from fleetrec.core.batch import Inputs
from fleetrec.core.cursor import Cursor
from fleetrec.parallel.blank import blank_batch, loss_denominator
from making_groups import make_batch

INPUTS = Inputs(
    sparse=("a", "b"),
    dense={"click": (1,), "price": (3,)},
    sides={"negatives": Inputs(sparse=("a",))},
)


def test_a_blank_batch_has_all_inputs_and_sides_of_the_data():
    cursor = Cursor(file=3, samples=7)
    batch = blank_batch(INPUTS, cursor)
    assert batch.is_blank
    assert batch.cursor == cursor
    assert batch.num_samples == 1
    assert batch.ids.names == INPUTS.sparse
    assert {name: tuple(x.shape[1:]) for name, x in batch.dense.items()} == INPUTS.dense
    assert batch.side("negatives").ids.names == ("a",)
    assert not any(tensor.any() for name, tensor in batch.tensors().items() if "off" not in name)


def test_a_loss_is_divided_by_the_samples_that_count():
    batch = make_batch([1, 2, 3])
    assert loss_denominator(batch) == 3
    weighted = dataclasses.replace(batch, weights_B=torch.tensor([0.0, 2.0, 0.5]))
    assert loss_denominator(weighted) == 2
    nothing = dataclasses.replace(batch, weights_B=torch.zeros(3))
    assert loss_denominator(nothing) == 1  # as the loss itself, which does not divide by 0
