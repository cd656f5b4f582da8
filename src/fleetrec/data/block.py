"""Blocks of decoded samples, from which batches are built."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fleetrec._native import select_rows
from fleetrec.core.batch import Inputs, Side
from fleetrec.core.jagged import KeyedJagged

Rows = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SlotCounts:
    """Which features occurred, because a misspelt one would train without a warning.

    ``seen`` counts, by declared feature (sparse ones first), the samples that have it.
    """

    num_samples: int
    seen: npt.NDArray[np.int64]
    undeclared: Mapping[str, int] = dataclasses.field(default_factory=dict)
    num_empty: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Some samples: the data of a batch, and counts of features.

    ``sides`` are further sides, which a stage adds when the samples of a batch are final.

    ``padding_positions`` are indexes of ids that stand for a missing value, if the source has not
    applied the rules for ids itself: rules are for values only.
    """

    ids: KeyedJagged
    dense: Mapping[str, Tensor]
    counts: SlotCounts
    padding_positions: Rows = dataclasses.field(default_factory=lambda: np.empty(0, np.int64))
    sides: Mapping[str, Side] = dataclasses.field(default_factory=dict)

    @property
    def num_samples(self) -> int:
        """Return the number of samples."""
        return self.ids.num_samples

    @classmethod
    def empty(cls, inputs: Inputs) -> Self:
        """Return a block of no samples."""
        return cls(
            ids=KeyedJagged(
                names=inputs.sparse,
                values_N=torch.empty(0, dtype=torch.int64),
                offsets=torch.zeros(1, dtype=torch.int64),
                num_samples=0,
            ),
            dense={name: torch.empty(0, *shape) for name, shape in inputs.dense.items()},
            counts=SlotCounts(
                num_samples=0, seen=np.zeros(len(inputs.sparse) + len(inputs.dense), np.int64)
            ),
        )

    @property
    def num_bytes(self) -> int:
        """Return the memory that the tensors take."""
        tensors = Side(ids=self.ids, dense=self.dense).tensors().values()
        return sum(math.prod(t.shape) * t.element_size() for t in tensors)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle plain arrays: tensors would be passed through torch's shared memory."""
        assert not self.sides, "sides are added in the process that makes batches"
        ids = self.ids
        arrays = (ids.values_N, ids.offsets, ids.weights_N)
        return _rebuild, (
            ids.names,
            tuple(None if tensor is None else tensor.numpy() for tensor in arrays),
            ids.num_samples,
            {name: tensor.numpy() for name, tensor in self.dense.items()},
            self.counts,
        )


def select(blocks: Sequence[Block], rows: Rows) -> Block:
    """Return chosen samples of several blocks in the given order.

    Rows are numbered through all blocks. Counts are not carried over.
    """
    first = blocks[0]
    chosen = select_side([Side(ids=block.ids, dense=block.dense) for block in blocks], rows)
    return Block(
        ids=chosen.ids,
        dense=chosen.dense,
        counts=SlotCounts(num_samples=0, seen=np.zeros_like(first.counts.seen)),
    )


def select_side(sides: Sequence[Side], rows: Rows) -> Side:
    """Return chosen rows of several sides with the same features, in the given order."""
    first = sides[0]
    ids, offsets, weights = select_rows(
        [
            (
                side.ids.values_N.numpy(),
                side.ids.offsets.numpy(),
                None if side.ids.weights_N is None else side.ids.weights_N.numpy(),
                side.num_rows,
            )
            for side in sides
        ],
        len(first.ids.names),
        rows,
    )
    chosen = torch.from_numpy(rows)
    return Side(
        ids=KeyedJagged(
            names=first.ids.names,
            values_N=torch.from_numpy(ids),
            offsets=torch.from_numpy(offsets),
            num_samples=len(rows),
            weights_N=None if weights is None else torch.from_numpy(weights),
        ),
        dense={
            name: _joined([side.dense[name] for side in sides]).index_select(0, chosen)
            for name in first.dense
        },
    )


def join(blocks: Sequence[Block]) -> Block:
    """Return all samples of several blocks, with their counts."""
    if len(blocks) == 1:
        return blocks[0]
    num_samples = sum(block.num_samples for block in blocks)
    counts = add_counts([block.counts for block in blocks])
    return dataclasses.replace(select(blocks, np.arange(num_samples)), counts=counts)


def add_counts(counts: Sequence[SlotCounts]) -> SlotCounts:
    """Return the counts of several blocks together."""
    undeclared: dict[str, int] = {}
    for count in counts:
        for name, num_values in count.undeclared.items():
            undeclared[name] = undeclared.get(name, 0) + num_values
    return SlotCounts(
        num_samples=sum(count.num_samples for count in counts),
        seen=np.sum([count.seen for count in counts], axis=0, dtype=np.int64),
        undeclared=undeclared,
        num_empty=sum(count.num_empty for count in counts),
    )


def _rebuild(
    names: tuple[str, ...],
    arrays: tuple[npt.NDArray[Any] | None, ...],
    num_samples: int,
    dense: Mapping[str, npt.NDArray[Any]],
    counts: SlotCounts,
) -> Block:
    values, offsets, weights = (
        None if array is None else torch.from_numpy(array) for array in arrays
    )
    assert values is not None
    assert offsets is not None
    ids = KeyedJagged(
        names=names,
        values_N=values,
        offsets=offsets,
        num_samples=num_samples,
        weights_N=weights,
    )
    tensors = {name: torch.from_numpy(array) for name, array in dense.items()}
    return Block(ids=ids, dense=tensors, counts=counts)


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors))
