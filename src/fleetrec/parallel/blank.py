"""Ranks that have to take part in a step without any data."""

from fleetrec.core.batch import Batch, Inputs, Side
from fleetrec.core.cursor import Cursor


def weight_of(batch: Batch) -> int:
    """Return by how much the loss of a batch was divided."""
    if batch.weights_B is None:
        return batch.num_samples
    return max(1, int(batch.weights_B.count_nonzero()))


def blank_batch(inputs: Inputs, cursor: Cursor) -> Batch:
    """Return a sample that says nothing, for a rank that has to take part and has no data."""
    sample = Side.blank(inputs)
    return Batch(
        ids=sample.ids,
        dense=sample.dense,
        other_sides={name: Side.blank(side) for name, side in inputs.sides.items()},
        cursor=cursor,
        is_blank=True,
    )
