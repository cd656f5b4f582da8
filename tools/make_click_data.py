"""Make the sample data of the click models: small, fixed by a seed, and learnable.

Each sample has 13 numbers and 26 ids. The chance of a click depends on weights of the single ids,
on the numbers, and on how well the hidden vectors of some ids fit each other, so that models
that see interactions do better than those that do not.

usage: python tools/make_click_data.py [FOLDER]
"""

import gzip
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

SEED = 20200612
NUM_DENSE = 13
NUM_SPARSE = 26
NUM_VALUES = 40  # different ids of one slot
ID_SPACE = 1_000_001
FILES = {"train/part-0": 1500, "train/part-1": 1500, "train/part-2": 1500, "test/part-0": 1500}
TARGET = Path(__file__).parents[1] / "src/fleetrec/models/rank/dnn/data/sample_data"

Floats = npt.NDArray[np.float64]


def main() -> None:
    """Write all files."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET
    rng = np.random.default_rng(SEED)
    num_samples = sum(FILES.values())
    values = _zipf(rng, num_samples)
    ids = rng.choice(ID_SPACE - 1, NUM_SPARSE * NUM_VALUES, replace=False) + 1
    dense = np.round(rng.lognormal(0.0, 1.0, (num_samples, NUM_DENSE)).clip(0, 9.99) / 10, 2)
    clicks = rng.random(num_samples) < 1 / (1 + np.exp(-_logits(rng, values, dense)))
    slot_ids = ids.reshape(NUM_SPARSE, NUM_VALUES)[np.arange(NUM_SPARSE), values]
    begin = 0
    for name, count in FILES.items():
        lines = [_line(clicks[i], dense[i], slot_ids[i]) for i in range(begin, begin + count)]
        path = target / f"{name}.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
        print(f"{path}: {count} samples, {clicks[begin : begin + count].mean():.1%} clicked")
        begin += count


def _zipf(rng: np.random.Generator, num_samples: int) -> npt.NDArray[np.int64]:
    chances = 1.0 / np.arange(1, NUM_VALUES + 1)
    return rng.choice(NUM_VALUES, (num_samples, NUM_SPARSE), p=chances / chances.sum())


def _logits(rng: np.random.Generator, values: npt.NDArray[np.int64], dense: Floats) -> Floats:
    slots = np.arange(NUM_SPARSE)
    weights = rng.normal(0, 0.35, (NUM_SPARSE, NUM_VALUES))
    hidden = rng.normal(0, 0.55, (NUM_SPARSE, NUM_VALUES, 3))[slots, values][:, :6]
    pairs = 0.5 * (hidden.sum(1) ** 2 - (hidden**2).sum(1)).sum(1)
    numbers = (dense - dense.mean(0)) @ rng.normal(0, 3.0, NUM_DENSE)
    logits = weights[slots, values].sum(1) + pairs + numbers
    return np.asarray(logits - logits.mean() - 0.9, np.float64)


def _line(click: np.bool_, dense: Floats, ids: npt.NDArray[np.int64]) -> str:
    tokens = [f"click:{int(click)}"]
    tokens += [f"dense_feature:{value:g}" for value in dense]
    tokens += [f"{slot}:{value}" for slot, value in enumerate(ids, start=1)]
    return " ".join(tokens) + "\n"


if __name__ == "__main__":
    main()
