"""Statistics of a data set: coverage, cardinality, lengths and ranges of every feature."""

import dataclasses
import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from fleetrec.core.batch import Batch, Inputs
from fleetrec.data.scatter import scatter
from fleetrec.data.slot_report import SlotReport

Array = npt.NDArray[np.float64]

MAX_EXACT = 1 << 17  # different ids that are counted one by one; beyond it, they are estimated
REGISTER_BITS = 14
NUM_BARS = 20
MAX_SAMPLED = 1 << 16  # values of a dense feature that its histogram is made from
MAX_LENGTH = 64  # longer lists share the last bar


class Cardinality:
    """Counts unique ids: exactly up to a limit, then within about one percent.

    The estimate is HyperLogLog (Flajolet et al., 2007) over a mixed 64-bit id.
    """

    def __init__(self) -> None:
        self._exact: npt.NDArray[np.int64] | None = np.empty(0, np.int64)
        self._registers: npt.NDArray[np.uint8] = np.zeros(1 << REGISTER_BITS, np.uint8)

    def add(self, ids: npt.NDArray[np.int64]) -> None:
        """Count some ids."""
        unique = np.unique(ids)
        mixed = scatter(unique.view(np.uint64))
        places = (mixed >> np.uint64(64 - REGISTER_BITS)).astype(np.int64)
        rest = (mixed << np.uint64(REGISTER_BITS)) | np.uint64(1 << (REGISTER_BITS - 1))
        # The number of leading zeros: exponents of floats know it, down to rounding at the top.
        ranks = 64 - np.frexp((rest >> np.uint64(11)).astype(np.float64))[1] - 11 + 1
        np.maximum.at(self._registers, places, ranks.astype(np.uint8))
        if self._exact is not None:
            self._exact = np.union1d(self._exact, unique)
            if len(self._exact) > MAX_EXACT:
                self._exact = None

    @property
    def is_exact(self) -> bool:
        """Return whether the count is exact."""
        return self._exact is not None

    @property
    def count(self) -> int:
        """Return the number of different ids."""
        if self._exact is not None:
            return len(self._exact)
        size = len(self._registers)
        alpha = 0.7213 / (1 + 1.079 / size)
        inverse = float(np.exp2(-self._registers.astype(np.float64)).sum())
        return round(alpha * size**2 / inverse)


@dataclasses.dataclass(kw_only=True)
class FeatureStats:
    """Statistics of one feature: lengths and ids of a sparse one, values of a dense one."""

    name: str
    kind: str
    coverage: float = 0.0  # the share of samples that have it
    num_samples: int = 0
    num_values: int = 0
    low: float = math.inf
    high: float = -math.inf
    total: float = 0.0
    shortest: int = 0
    longest: int = 0
    cardinality: Cardinality = dataclasses.field(default_factory=Cardinality)
    length_counts: npt.NDArray[np.int64] = dataclasses.field(
        default_factory=lambda: np.zeros(MAX_LENGTH + 1, np.int64)
    )
    sample: list[Array] = dataclasses.field(default_factory=list)

    @property
    def rate(self) -> float | None:
        """Return the share of ones if every sample has 0 or 1, as a label does."""
        is_label = self.kind == "sparse" and self.shortest == self.longest == 1 and self.high <= 1
        return self.total / max(1, self.num_values) if is_label else None

    @property
    def mean(self) -> float:
        """Return the mean length of a sparse feature, the mean value of a dense one."""
        divisor = self.num_samples if self.kind == "sparse" else self.num_values
        total = self.num_values if self.kind == "sparse" else self.total
        return total / max(1, divisor)

    def histogram(self) -> tuple[Array, npt.NDArray[np.int64]]:
        """Return the edges and heights of bars: of lengths, or of values in the first samples."""
        if self.kind == "sparse":
            last = int(np.flatnonzero(self.length_counts).max(initial=0)) + 1
            return np.arange(last + 1, dtype=np.float64), self.length_counts[:last]
        values = np.concatenate(self.sample) if self.sample else np.zeros(0)
        heights, edges = np.histogram(values, NUM_BARS)
        return edges, heights


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataStats:
    """Statistics of a data set."""

    num_samples: int
    features: tuple[FeatureStats, ...]


def describe(batches: Iterable[Batch], *, inputs: Inputs, report: SlotReport) -> DataStats:
    """Return statistics of all batches; ``report`` counts which features were missing."""
    sparse = [FeatureStats(name=name, kind="sparse") for name in inputs.sparse]
    dense = [FeatureStats(name=name, kind="dense") for name in inputs.dense]
    num_samples = 0
    for batch in batches:
        num_samples += batch.num_samples
        for feature in sparse:
            jagged = batch.ids[feature.name]
            _add_ids(feature, jagged.values.numpy(), jagged.lengths().numpy())
        for feature in dense:
            _add_values(feature, batch.dense[feature.name].flatten().numpy())
    for feature in (*sparse, *dense):
        feature.num_samples = num_samples
        feature.coverage = report.coverage(feature.name)
    return DataStats(num_samples=num_samples, features=(*sparse, *dense))


def _add_ids(
    feature: FeatureStats, ids: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> None:
    shortest = int(lengths.min())
    feature.shortest = min(feature.shortest, shortest) if feature.num_values else shortest
    feature.longest = max(feature.longest, int(lengths.max()))
    feature.length_counts += np.bincount(np.minimum(lengths, MAX_LENGTH), minlength=MAX_LENGTH + 1)
    feature.num_values += len(ids)
    feature.total += float(ids.sum(dtype=np.float64))
    feature.cardinality.add(ids)
    _add_range(feature, ids.view(np.uint64))


def _add_values(feature: FeatureStats, values: npt.NDArray[np.float32]) -> None:
    feature.num_values += len(values)
    feature.total += float(values.sum(dtype=np.float64))
    if sum(map(len, feature.sample)) < MAX_SAMPLED:
        feature.sample.append(values.astype(np.float64))
    _add_range(feature, values)


def _add_range(feature: FeatureStats, values: npt.NDArray[np.generic]) -> None:
    if len(values):
        feature.low = min(feature.low, float(values.min()))
        feature.high = max(feature.high, float(values.max()))
