"""Batches for ranks that take part in a step without data."""

from fleetrec.core.batch import Batch, Inputs, Side
from fleetrec.core.cursor import Cursor


def loss_denominator(batch: Batch) -> int:
    """Return the number by which the loss of a batch is divided."""
    if batch.weights_B is None:
        return batch.num_samples
    return max(1, int(batch.weights_B.count_nonzero()))


def blank_batch(inputs: Inputs, cursor: Cursor) -> Batch:
    """Return a batch of one placeholder sample, which counts for nothing."""
    sample = Side.blank(inputs)
    return Batch(
        ids=sample.ids,
        dense=sample.dense,
        other_sides={name: Side.blank(side) for name, side in inputs.sides.items()},
        cursor=cursor,
        is_blank=True,
    )
