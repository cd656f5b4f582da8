"""Make click logs in Criteo's layout: small, fixed by a seed, and learnable.

A line has a label, 13 counts and 26 categories, separated by tabs; some are empty. The chance of a
click depends on weights of the categories and on two of the counts.

usage: python tools/make_criteo_logs.py FOLDER [NUM_FILES [LINES_EACH]]
"""

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

SEED = 20190701
NUM_COUNTS = 13
NUM_CATEGORIES = 26
NUM_VALUES = 30  # different values of one category
CHANCE_OF_NONE = 0.05
NUM_FILES, LINES_EACH = 4, 1000

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def main() -> None:
    """Write part-0, part-1, ...."""
    folder = Path(sys.argv[1])
    num_files = int(sys.argv[2]) if len(sys.argv) > 2 else NUM_FILES
    num_lines = int(sys.argv[3]) if len(sys.argv) > 3 else LINES_EACH
    rng = np.random.default_rng(SEED)
    weights = rng.normal(0, 0.5, (NUM_CATEGORIES, NUM_VALUES))
    names = rng.integers(0, 1 << 32, (NUM_CATEGORIES, NUM_VALUES))
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(num_files):
        lines = [_line(rng, weights, names) for _ in range(num_lines)]
        (folder / f"part-{number}").write_text("".join(lines), encoding="utf-8")
    print(f"{folder}: {num_files} files of {num_lines} lines")


def _line(rng: np.random.Generator, weights: Floats, names: Ints) -> str:
    counts = rng.poisson(rng.lognormal(1.0, 1.0, NUM_COUNTS))
    chosen = rng.zipf(1.5, NUM_CATEGORIES).clip(1, NUM_VALUES) - 1
    places = np.arange(NUM_CATEGORIES)
    logit = weights[places, chosen].sum() + 0.3 * (np.log1p(counts[0]) - np.log1p(counts[1])) - 1
    label = int(rng.random() < 1 / (1 + np.exp(-logit)))
    cells = [str(count) for count in counts]
    cells += [f"{name:08x}" for name in names[places, chosen]]
    empty = rng.random(len(cells)) < CHANCE_OF_NONE
    shown = ["" if is_empty else cell for cell, is_empty in zip(cells, empty, strict=True)]
    return "\t".join([str(label), *shown]) + "\n"


if __name__ == "__main__":
    main()
