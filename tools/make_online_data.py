"""Make the sample data of online learning: two days of clicks in folders of four hours.

Each sample has 4 numbers and 8 ids of 64 bits. Clicks depend on the ids alone and on how well the
hidden vectors of some of them fit each other. Items come and go: those of one folder are mostly
those of the folder before, so that some rows are not seen any more after a while.

usage: python tools/make_online_data.py [FOLDER]
"""

import gzip
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

SEED = 20200901
NUM_DENSE = 4
NUM_SPARSE = 8
NUM_VALUES = 24  # different ids of one slot; of items, those of one folder
ITEM = NUM_SPARSE - 1
NEW_ITEMS = 2  # in every folder
DAYS = ("20261116", "20261117")
TIMES = ("0000", "0400", "0800", "1200", "1600", "2000")
NUM_SAMPLES = 140  # of a folder
NUM_TEST = 600
DONE = "done"
TARGET = Path(__file__).parents[1] / "src/fleetrec/models/online_learning/ctr_dnn/data"

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def main() -> None:
    """Write all files."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET
    rng = np.random.default_rng(SEED)
    folders = [f"days/{day}/{time}" for day in DAYS for time in TIMES]
    counts = [*(NUM_SAMPLES for _ in folders), NUM_TEST]
    values = _zipf(rng, sum(counts))
    ages = np.repeat([*range(len(folders)), len(folders) - 1], counts)
    values[:, ITEM] += NEW_ITEMS * ages
    num_ids = NUM_VALUES + NEW_ITEMS * len(folders)
    ids = rng.integers(0, 2**64, (NUM_SPARSE, num_ids), dtype=np.uint64)
    dense = np.round(rng.random((len(values), NUM_DENSE)), 1)
    clicks = rng.random(len(values)) < 1 / (1 + np.exp(-_logits(rng, values, dense, num_ids)))
    slot_ids = ids[np.arange(NUM_SPARSE), values]
    begin = 0
    for folder, count in zip([*folders, "test"], counts, strict=True):
        lines = [_line(clicks[i], dense[i], slot_ids[i]) for i in range(begin, begin + count)]
        path = target / folder / "part-0.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
        if folder != "test":
            (path.parent / DONE).touch()
        print(f"{path}: {count} samples, {clicks[begin : begin + count].mean():.1%} clicked")
        begin += count


def _zipf(rng: np.random.Generator, num_samples: int) -> Ints:
    chances = 1.0 / np.arange(1, NUM_VALUES + 1)
    return rng.choice(NUM_VALUES, (num_samples, NUM_SPARSE), p=chances / chances.sum())


def _logits(rng: np.random.Generator, values: Ints, dense: Floats, num_ids: int) -> Floats:
    slots = np.arange(NUM_SPARSE)
    weights = rng.normal(0, 0.8, (NUM_SPARSE, num_ids))
    hidden = rng.normal(0, 0.5, (NUM_SPARSE, num_ids, 2))[slots, values][:, -4:]
    pairs = 0.5 * (hidden.sum(1) ** 2 - (hidden**2).sum(1)).sum(1)
    numbers = (dense - dense.mean(0)) @ rng.normal(0, 1.0, NUM_DENSE)
    logits = weights[slots, values].sum(1) + pairs + numbers
    return np.asarray(logits - logits.mean() - 0.7, np.float64)


def _line(click: np.bool_, dense: Floats, ids: npt.NDArray[np.uint64]) -> str:
    tokens = [f"click:{int(click)}"]
    tokens += [f"dense_feature:{value:g}" for value in dense]
    tokens += [f"{slot}:{value}" for slot, value in enumerate(ids, start=1)]
    return " ".join(tokens) + "\n"


if __name__ == "__main__":
    main()
