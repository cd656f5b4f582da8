"""Values of features: lists of ids, and arrays of numbers."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

_NO_IDS = np.empty(0, np.int64)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class IdLists:
    """The ids of one feature: row ``i`` owns ``ids[offsets[i]:offsets[i + 1]]``, maybe none.

    Without offsets there is one id in every row. Weights are parallel to the ids.
    """

    ids: Ids
    offsets: Ids | None = None
    weights: Floats | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The numbers of one dense feature, one line per row, and how many rows have any."""

    values: Floats
    num_present: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KeyedIds:
    """The id lists of several features in one array, feature by feature.

    Row ``i`` of feature ``f`` owns ``ids[offsets[k]:offsets[k + 1]]``, k = f * num_rows + i.
    """

    names: tuple[str, ...]
    ids: Ids
    offsets: Ids
    num_rows: int
    weights: Floats | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FeatureValues:
    """The features of some rows as arrays.

    ``dense`` arrays have the shape [rows, *shape]. ``num_present`` counts the rows that have a
    value, by feature; the others hold padding, or no id.
    """

    num_rows: int
    ids: Mapping[str, IdLists]
    dense: Mapping[str, Floats]
    num_present: Mapping[str, int]

    def keyed_ids(self) -> KeyedIds:
        """Return the ids of all features in one array."""
        return join_ids([self], tuple(self.ids))


def to_offsets(lengths: npt.NDArray[np.generic]) -> Ids:
    """Return where lists of these lengths begin and end."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def pad(
    lists: IdLists | None, num_rows: int, padding: int | None, *, has_weights: bool = False
) -> tuple[IdLists, int]:
    """Give every empty list the id ``padding``; also return how many lists were not empty.

    None for ``lists``: all are empty. None for ``padding``: empty lists stay empty.
    ``has_weights``: missing lists get weights too, as all others of the feature have.
    """
    if lists is None:
        if padding is None:
            return IdLists(ids=_NO_IDS, offsets=np.zeros(num_rows + 1, np.int64)), 0
        weights = np.ones(num_rows, np.float32) if has_weights else None
        return IdLists(ids=np.full(num_rows, padding, np.int64), weights=weights), 0
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


def join_ids(parts: Sequence[FeatureValues], names: Sequence[str]) -> KeyedIds:
    """Concatenate the rows of all parts: all rows of the first feature, then of the second."""
    lists = [part.ids[name] for name in names for part in parts]
    num_rows = sum(part.num_rows for part in parts)
    return KeyedIds(
        names=tuple(names),
        ids=np.concatenate([one.ids for one in lists] or [_NO_IDS]),
        offsets=_join_offsets(lists, len(names) * num_rows),
        num_rows=num_rows,
        weights=_join_weights(lists),
    )


def _join_offsets(joined: Sequence[IdLists], num_lists: int) -> Ids:
    if all(lists.offsets is None for lists in joined):
        return np.arange(num_lists + 1)
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
    return offsets


def _join_weights(joined: Sequence[IdLists]) -> Floats | None:
    """Return weights if any feature has them; 1 where there is none."""
    if all(lists.weights is None for lists in joined):
        return None
    return np.concatenate(
        [
            np.ones(len(lists.ids), np.float32) if lists.weights is None else lists.weights
            for lists in joined
        ]
    )
