"""What a column becomes: lists of ids, or numbers."""

import dataclasses

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class IdLists:
    """The ids of one feature: row ``i`` owns ``ids[offsets[i]:offsets[i + 1]]``, maybe none.

    Without offsets there is one id in every row. Weights stand beside the ids.
    """

    ids: Ids
    offsets: Ids | None = None
    weights: Floats | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The numbers of one dense feature, one line per row, and how many rows have any."""

    values: Floats
    num_present: int


def to_offsets(lengths: npt.NDArray[np.int64]) -> Ids:
    """Return where lists of these lengths begin and end."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
