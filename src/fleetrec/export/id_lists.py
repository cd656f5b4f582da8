"""Lists of ids, as they are fed to an inference model."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetrec.core.errors import DataError
from fleetrec.features.values import FeatureValues, IdLists, KeyedIds, to_offsets

Array = npt.NDArray[Any]
Feed = Array | Sequence[Sequence[int]]
Weights = Array | Sequence[Sequence[float]]


def keyed_ids(
    feeds: Mapping[str, Feed], weights: Mapping[str, Weights], *, num_samples: int
) -> KeyedIds:
    """Return the lists of some feeds in one array; the default weight of an id is 1."""
    lists = {name: _lists(name, ids, weights.get(name)) for name, ids in feeds.items()}
    for name, some in lists.items():
        assert some.offsets is not None
        if len(some.offsets) != num_samples + 1:
            raise DataError(
                f"feed {name!r} has {len(some.offsets) - 1} samples, others {num_samples}"
            )
    values = FeatureValues(num_rows=num_samples, ids=lists, dense={}, num_present={})
    return values.keyed_ids()


def _lists(name: str, ids: Feed, weights: Weights | None) -> IdLists:
    lengths = [len(some) for some in ids]
    if isinstance(ids, np.ndarray) and ids.dtype.kind in "iu":
        flat = np.ascontiguousarray(ids.astype(np.int64, copy=False).reshape(-1))
    else:
        flat = _ids(itertools.chain.from_iterable(ids))
    weights_N = None
    if weights is not None:
        if [len(some) for some in weights] != lengths:
            raise DataError(f"weights of feed {name!r}: expected one number per id")
        weights_N = np.array([float(w) for some in weights for w in some], np.float32)
    return IdLists(ids=flat, offsets=to_offsets(np.array(lengths, np.int64)), weights=weights_N)


def _ids(values: Iterable[int]) -> npt.NDArray[np.int64]:
    return np.array([int(value) & (2**64 - 1) for value in values], np.uint64).view(np.int64)
