"""Click data in the shape of Criteo's: 13 dense values and 26 ids per sample, as slot text.

Ids follow power laws over cardinalities from 3 to a million, and the hot ones are scattered over
the table. Each feature has a range of its own, so that one table can hold all of them.
"""

import dataclasses
import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fleetrec.checkpoint.publish import publish

LABEL = "click"
DENSE = "dense_feature"
NUM_DENSE = 13
CARDINALITIES = (
    *(1460, 583, 1_000_000, 500_000, 305, 24, 12_517, 633, 3, 93_145, 5683, 900_000, 3194),
    *(27, 14_992, 700_000, 10, 5652, 2173, 4, 800_000, 18, 15, 286_181, 105, 142_572),
)
SPARSE = tuple(str(i + 1) for i in range(len(CARDINALITIES)))
NUM_IDS = sum(CARDINALITIES)
SEED = 20240607

_MISSING_DENSE = 0.15
_FORMAT_ROWS = 1 << 15


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Columns: labels, dense features, and global ids feature by feature."""

    labels: npt.NDArray[np.int64]
    dense: Sequence[npt.NDArray[np.float64]]
    ids: Sequence[npt.NDArray[np.int64]]

    def to_text(self, begin: int, end: int) -> str:
        """Write some samples as slot text, one line each."""
        columns = [column[begin:end].tolist() for column in (self.labels, *self.dense, *self.ids)]
        line = " ".join(
            [f"{LABEL}:%d", *[f"{DENSE}:%.4g"] * NUM_DENSE, *(f"{slot}:%d" for slot in SPARSE)]
        )
        return "".join([f"{line}\n" % sample for sample in zip(*columns, strict=True)])


def draw_samples(num_samples: int, *, seed: int = SEED) -> Samples:
    """Draw samples whose labels depend on dense values and ids, so that they can be learnt."""
    rng = np.random.default_rng(seed)
    logits = np.zeros(num_samples)
    ids, offset = [], 0
    for cardinality in CARDINALITIES:
        local = _power_law(num_samples, cardinality, rng=rng)
        logits += rng.normal(0.0, 0.3, cardinality)[local]
        ids.append(local + offset)
        offset += cardinality
    dense = []
    for _ in range(NUM_DENSE):
        values = np.log1p(rng.lognormal(1.0, 1.2, num_samples)) / 5
        values[rng.random(num_samples) < _MISSING_DENSE] = 0.0
        logits += rng.normal(0.0, 0.6) * (values - values.mean())
        dense.append(values)
    clicks = rng.random(num_samples) < 1 / (1 + np.exp(1.2 + logits.mean() - logits))
    return Samples(labels=clicks.astype(np.int64), dense=dense, ids=ids)


def cached_parts(cache: Path, *, num_samples: int, num_parts: int) -> list[Path]:
    """Return the part files of a data set, written at the first call and found at later ones."""
    # Another generator makes other data: its folder carries a digest of this file.
    digest = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]
    folder = cache / f"criteo_like_{num_samples}_{num_parts}_{digest}"
    if not folder.is_dir():
        samples = draw_samples(num_samples)
        publish(folder, lambda staging: _write_parts(staging, samples, num_parts))
    return sorted(folder.iterdir())


def _power_law(
    num_samples: int, cardinality: int, *, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Draw from 0..cardinality-1 with P(rank r) ~ r^-a, the ranks scattered over the range."""
    exponent = 1 - rng.uniform(1.05, 1.2)
    uniform = rng.random(num_samples)
    ranks = (1 + uniform * (float(cardinality + 1) ** exponent - 1)) ** (1 / exponent)
    places = rng.permutation(cardinality)
    drawn: npt.NDArray[np.int64] = places[np.clip(ranks.astype(np.int64), 1, cardinality) - 1]
    return drawn


def _write_parts(folder: Path, samples: Samples, num_parts: int) -> None:
    bounds = np.linspace(0, len(samples.labels), num_parts + 1).astype(int).tolist()
    for part in range(num_parts):
        with (folder / f"part-{part:03d}").open("w", encoding="ascii") as stream:
            for begin in range(bounds[part], bounds[part + 1], _FORMAT_ROWS):
                stream.write(samples.to_text(begin, min(begin + _FORMAT_ROWS, bounds[part + 1])))
