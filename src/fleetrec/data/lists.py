"""Columns that were understood, put together feature by feature."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch

from fleetrec.config.job import DatasetOptions
from fleetrec.core.jagged import KeyedJagged
from fleetrec.data.block import Block, SlotCounts
from fleetrec.features.values import Floats as Floats
from fleetrec.features.values import IdLists as IdLists
from fleetrec.features.values import Numbers as Numbers

_NO_IDS = np.empty(0, np.int64)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """All declared features of some rows in the order they are declared; None: no such column."""

    num_rows: int
    sparse: Sequence[IdLists | None]
    dense: Sequence[Numbers | None]
    undeclared: tuple[str, ...] = ()
    num_empty: int = 0


def assemble(options: DatasetOptions, parts: Sequence[Columns]) -> Block:
    """Return the rows of all parts as one block; rows without a value are padded."""
    num_samples = sum(part.num_rows for part in parts)
    ids, num_seen = _join_ids(options, parts, num_samples)
    dense = {}
    for i, slot in enumerate(options.dense):
        values = [_numbers(part, i, options) for part in parts]
        joined = torch.from_numpy(np.concatenate(values))
        dense[slot.name] = joined.reshape(num_samples, *slot.shape)
        num_seen.append(sum(_num_present(part.dense[i]) for part in parts))
    undeclared: dict[str, int] = {}
    for part in parts:
        for name in part.undeclared:
            undeclared[name] = undeclared.get(name, 0) + part.num_rows
    counts = SlotCounts(
        num_samples=num_samples,
        seen=np.array(num_seen, np.int64),
        undeclared=undeclared,
        num_empty=sum(part.num_empty for part in parts),
    )
    return Block(ids=ids, dense=dense, counts=counts)


def _join_ids(
    options: DatasetOptions, parts: Sequence[Columns], num_samples: int
) -> tuple[KeyedJagged, list[int]]:
    """Put lists one behind the other: all rows of the first feature, then of the second."""
    joined: list[IdLists] = []
    num_seen = []
    padding = None if options.features else options.padding  # a feature may have no id
    for i in range(len(options.sparse)):
        num_seen.append(0)
        for part in parts:
            lists, num_present = _padded(part.sparse[i], part.num_rows, padding)
            num_seen[-1] += num_present
            joined.append(lists)
    keyed = KeyedJagged(
        names=options.sparse,
        values_N=torch.from_numpy(np.concatenate([x.ids for x in joined] or [_NO_IDS])),
        offsets=_join_offsets(joined, len(options.sparse) * num_samples),
        num_samples=num_samples,
        weights_N=_join_weights(options, joined),
    )
    return keyed, num_seen


def _join_offsets(joined: Sequence[IdLists], num_lists: int) -> torch.Tensor:
    if all(lists.offsets is None for lists in joined):
        return torch.from_numpy(np.arange(num_lists + 1))
    offsets = np.zeros(num_lists + 1, np.int64)
    row, num_ids = 1, 0
    for lists in joined:
        num_rows = len(lists.ids if lists.offsets is None else lists.offsets[1:])
        ends = offsets[row : row + num_rows]
        if lists.offsets is None:
            ends[:] = np.arange(num_ids + 1, num_ids + num_rows + 1)
        else:
            np.add(lists.offsets[1:], num_ids, out=ends)
        row, num_ids = row + num_rows, num_ids + len(lists.ids)
    return torch.from_numpy(offsets)


def _join_weights(options: DatasetOptions, joined: Sequence[IdLists]) -> torch.Tensor | None:
    """Return weights if the job asks for them or the data has some; 1 where there is none."""
    has_weights = any(lists.weights is not None for lists in joined)
    if not has_weights and options.text_table.weight_separator is None:
        return None
    weights = [
        np.ones(len(lists.ids), np.float32) if lists.weights is None else lists.weights
        for lists in joined
    ]
    return torch.from_numpy(np.concatenate(weights or [np.empty(0, np.float32)]))


def _padded(lists: IdLists | None, num_rows: int, padding: int | None) -> tuple[IdLists, int]:
    """Return lists that all have an id, unless nothing pads them, and how many had one before."""
    if lists is None:
        if padding is None:
            return IdLists(ids=_NO_IDS, offsets=np.zeros(num_rows + 1, np.int64)), 0
        return IdLists(ids=np.full(num_rows, padding, np.int64)), 0
    if lists.offsets is None:
        return lists, num_rows
    is_empty = lists.offsets[1:] == lists.offsets[:-1]
    num_empty = int(np.count_nonzero(is_empty))
    if not num_empty or padding is None:
        return lists, num_rows - num_empty
    at = lists.offsets[:-1][is_empty]
    offsets = lists.offsets.copy()
    offsets[1:] += np.cumsum(is_empty)
    weights = lists.weights
    padded = IdLists(
        ids=np.insert(lists.ids, at, padding),
        offsets=offsets,
        weights=None if weights is None else np.insert(weights, at, np.float32(1)),
    )
    return padded, num_rows - num_empty


def _numbers(part: Columns, i: int, options: DatasetOptions) -> Floats:
    numbers = part.dense[i]
    if numbers is not None:
        return numbers.values
    width = int(np.prod(options.dense[i].shape))
    return np.full((part.num_rows, width), options.padding, np.float32)


def _num_present(numbers: Numbers | None) -> int:
    return 0 if numbers is None else numbers.num_present
