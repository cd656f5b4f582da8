"""Ranks that have to take part in a step without any data."""

import torch

from fleetrec.core.batch import Batch, Inputs
from fleetrec.core.cursor import Cursor
from fleetrec.core.jagged import KeyedJagged


def weight_of(batch: Batch) -> int:
    """Return by how much the loss of a batch was divided."""
    if batch.weights_B is None:
        return batch.num_samples
    return max(1, int(batch.weights_B.count_nonzero()))


def blank_batch(inputs: Inputs, cursor: Cursor) -> Batch:
    """Return a sample that says nothing, for a rank that has to take part and has no data."""
    size = len(inputs.sparse)
    return Batch(
        ids=KeyedJagged(
            names=inputs.sparse,
            values_N=torch.zeros(size, dtype=torch.int64),
            offsets=torch.arange(size + 1),
            num_samples=1,
        ),
        dense={name: torch.zeros(1, *shape) for name, shape in inputs.dense.items()},
        cursor=cursor,
        is_blank=True,
    )
