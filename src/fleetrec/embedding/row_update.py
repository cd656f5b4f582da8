"""The ids of a batch in one table, and the gradients of their rows."""

# Shape suffixes: N different ids of a batch, M of them with a gradient, D width of a row.

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UniqueIds:
    """The unique ids of a batch in one table; how often each occurs, and with a click."""

    ids_N: Array
    shows_N: Array
    clicks_N: Array

    def at(self, positions: Array) -> "UniqueIds":
        """Return some of them, in this order."""
        return UniqueIds(
            ids_N=self.ids_N[positions],
            shows_N=self.shows_N[positions],
            clicks_N=self.clicks_N[positions],
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RowUpdate:
    """The update of one table by a batch: all its ids, the first M of them with a gradient."""

    ids: UniqueIds
    grads_MD: Array


def merge_ids(parts: Sequence[UniqueIds]) -> UniqueIds:
    """Return the ids of several lookups in one table, sorted if there are several."""
    if len(parts) == 1:
        return parts[0]
    ids_N, inverse = np.unique(np.concatenate([part.ids_N for part in parts]), return_inverse=True)

    def count(values: list[Array]) -> Array:
        counts = np.zeros(len(ids_N), values[0].dtype)
        np.add.at(counts, inverse, np.concatenate(values))
        return counts

    return UniqueIds(
        ids_N=ids_N,
        shows_N=count([part.shows_N for part in parts]),
        clicks_N=count([part.clicks_N for part in parts]),
    )


def merge_grads(parts: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return ids and summed gradients of several lookups in one table.

    Sorted by id if there are several. A row must be updated once per step, for any number of
    lookups: with an optimizer such as Adam, two updates differ from one update by the sum.
    """
    if len(parts) == 1:
        return parts[0]
    ids_M, inverse = np.unique(np.concatenate([ids for ids, _ in parts]), return_inverse=True)
    grads = np.concatenate([grads for _, grads in parts])
    sums_MD = np.zeros((len(ids_M), grads.shape[1]), np.float32)
    np.add.at(sums_MD, inverse, grads)
    return ids_M, sums_MD
