"""Make the sample data of models with several tasks: small, fixed by a seed, and learnable.

Two labels depend on one hidden property of a sample, which pairs of its attributes make, and each
on attributes of its own. So the tasks have something in common, but not everything. Lines are laid
out as those of the Census-Income data: ``marital,income``, then numbers.

usage: python tools/make_census_data.py [FOLDER]
"""

import gzip
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

SEED = 20201202
NUM_NUMBERS = 3
NUM_ATTRIBUTES, NUM_VALUES = 8, 6
NUM_SHARED = 4  # attributes whose pairs matter to both tasks
PARTS = {"train/part-0": 1200, "train/part-1": 1200, "test/part-0": 800}
TARGET = Path(__file__).parents[1] / "src/fleetrec/models/multitask/mmoe/data"

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def main() -> None:
    """Write all files."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET
    lines = draw_lines(sum(PARTS.values()))
    begin = 0
    for name, count in PARTS.items():
        path = target / f"{name}.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{line}\n" for line in lines[begin : begin + count])
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
        print(f"{path}: {count} samples, {path.stat().st_size} bytes")
        begin += count


def draw_lines(num_samples: int, *, seed: int = SEED) -> list[str]:
    """Draw attributes and numbers, two labels from them, and write them side by side."""
    rng = np.random.default_rng(seed)
    values = rng.integers(NUM_VALUES, size=(num_samples, NUM_ATTRIBUTES))
    numbers = np.round(rng.beta(1.5, 3.0, (num_samples, NUM_NUMBERS)), 2)
    hidden = rng.normal(0, 1.2, (NUM_SHARED, NUM_VALUES))[np.arange(NUM_SHARED), values[:, :4]]
    shared = hidden[:, 0] * hidden[:, 1] + hidden[:, 2] * hidden[:, 3]
    own = rng.normal(0, 0.6, (2, NUM_ATTRIBUTES, NUM_VALUES))
    columns = np.arange(NUM_ATTRIBUTES)
    labels = [
        draw_label(sign * shared + weights[columns, values].sum(1) + slope * numbers.sum(1), rng)
        for sign, slope, weights in zip((1.0, -0.8), (1.5, -1.0), own, strict=True)
    ]
    hot = np.eye(NUM_VALUES, dtype=np.int64)[values].reshape(num_samples, -1)
    return [
        ",".join([str(marital), str(income), *(f"{x:g}" for x in line), *map(str, ones)])
        for marital, income, line, ones in zip(*labels, numbers, hot.tolist(), strict=True)
    ]


def draw_label(logits: Floats, rng: np.random.Generator) -> Ints:
    """Draw zeros and ones, a third of them ones."""
    centered = 1.5 * (logits - logits.mean()) - 0.9
    labels: Ints = (rng.random(len(logits)) < 1 / (1 + np.exp(-centered))).astype(np.int64)
    return labels


if __name__ == "__main__":
    main()
