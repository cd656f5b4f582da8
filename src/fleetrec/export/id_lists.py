"""Lists of ids, fed to an inference model."""

# Shape suffixes: B samples, N ids.

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from fleetrec.core.errors import DataError

Array = npt.NDArray[Any]
Feed = Array | Sequence[Sequence[int]]
Weights = Array | Sequence[Sequence[float]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class IdLists:
    """One list of ids per sample, back to back."""

    ids_N: npt.NDArray[np.int64]
    weights_N: npt.NDArray[np.float64]
    lengths_B: npt.NDArray[np.int64]

    @classmethod
    def of(cls, name: str, ids: Feed, weights: Weights | None) -> Self:
        """Create lists from the values of one feed; the default weight is 1."""
        lengths = [len(some) for some in ids]
        ids_N = _ids(itertools.chain.from_iterable(ids))
        weights_N = np.ones(len(ids_N))
        if weights is not None:
            if [len(some) for some in weights] != lengths:
                raise DataError(f"weights of feed {name!r}: expected one number per id")
            weights_N = np.array([float(w) for some in weights for w in some], np.float32)
            weights_N = weights_N.astype(np.float64)
        return cls(ids_N=ids_N, weights_N=weights_N, lengths_B=np.array(lengths, np.int64))

    @property
    def samples_N(self) -> npt.NDArray[np.int64]:
        """The sample of every id."""
        return np.repeat(np.arange(len(self.lengths_B)), self.lengths_B)

    def last(self, max_length: int | None) -> "IdLists":
        """Return the last ids of every list."""
        if max_length is None:
            return self
        ends_B = np.cumsum(self.lengths_B)
        kept_N = np.arange(len(self.ids_N)) >= (ends_B - max_length)[self.samples_N]
        return IdLists(
            ids_N=self.ids_N[kept_N],
            weights_N=self.weights_N[kept_N],
            lengths_B=np.minimum(self.lengths_B, max_length),
        )

    def scales_N(self, combiner: str) -> Array:
        """Return the factor of each row before pooling, as a column."""
        divisors_N = self._divisors_B(combiner)[self.samples_N]
        scales_N = np.divide(
            self.weights_N, divisors_N, out=np.zeros_like(divisors_N), where=divisors_N != 0
        )
        return scales_N.astype(np.float32)[:, None]

    def _divisors_B(self, combiner: str) -> npt.NDArray[np.float64]:
        sums_B = np.zeros(len(self.lengths_B))
        if combiner == "sum":
            return sums_B + 1
        squared = combiner == "sqrtn"
        np.add.at(sums_B, self.samples_N, self.weights_N**2 if squared else self.weights_N)
        return np.sqrt(sums_B) if squared else sums_B


def _ids(values: Iterable[int]) -> npt.NDArray[np.int64]:
    return np.array([int(value) & (2**64 - 1) for value in values], np.uint64).view(np.int64)
