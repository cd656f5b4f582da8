"""Make the sample data of the models over histories: small, fixed by a seed, and learnable.

A click is likely if the category of the target was met before, the more so the later it was met. So
neither the target nor the history alone tells much: a model must compare them, and one that knows
the order finds more. The same samples are written in the two layouts that the models read.

usage: python tools/make_history_data.py [FOLDER]
"""

import dataclasses
import gzip
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

SEED = 20201201
NUM_CATEGORIES = 12
ITEMS_PER_CATEGORY = 8
MAX_LENGTH = 12
PARTS = {"train/part-0": 2500, "train/part-1": 2500, "test/part-0": 1500}
TARGET = Path(__file__).parents[1] / "src/fleetrec/models/rank"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample:
    """Items met before, the item shown now, and whether it was clicked."""

    history: list[int]
    target: int
    click: int


def main() -> None:
    """Write all files of both layouts."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET
    samples = list(draw_samples(sum(PARTS.values())))
    write(target / "dataset/histories", samples, table_line)
    write(target / "BST/data", samples, slot_line)


def draw_samples(num_samples: int, *, seed: int = SEED) -> Iterator[Sample]:
    """Draw histories, targets and clicks; some histories are empty."""
    rng = np.random.default_rng(seed)
    taste = rng.normal(0, 0.3, NUM_CATEGORIES)
    for _ in range(num_samples):
        length = int(rng.integers(0, MAX_LENGTH + 1))
        liked = rng.choice(NUM_CATEGORIES, 3, replace=False)
        history = [draw_item(int(rng.choice(liked)), rng) for _ in range(length)]
        wanted = rng.choice(liked) if rng.random() < 0.6 else rng.integers(NUM_CATEGORIES)
        target = draw_item(int(wanted), rng)
        places = [i for i, item in enumerate(history) if category(item) == category(target)]
        recent = (1 + max(places)) / length if places else 0.0
        logit = -2.0 + 4.0 * recent**2 + taste[category(target)]
        click = int(rng.random() < 1 / (1 + np.exp(-logit)))
        yield Sample(history=history, target=target, click=click)


def draw_item(of_category: int, rng: np.random.Generator) -> int:
    """Return an item of a category; items count from 1."""
    return 1 + of_category * ITEMS_PER_CATEGORY + int(rng.integers(ITEMS_PER_CATEGORY))


def category(item: int) -> int:
    """Return the category of an item."""
    return (item - 1) // ITEMS_PER_CATEGORY


def table_line(sample: Sample) -> str:
    """Write items, their categories, the target, its category and the click."""
    items = " ".join(map(str, sample.history))
    categories = " ".join(str(1 + category(item)) for item in sample.history)
    return f"{items};{categories};{sample.target};{1 + category(sample.target)};{sample.click}"


def slot_line(sample: Sample) -> str:
    """Write slots; a position counts from the end of the history."""
    history = sample.history
    tokens = [f"history:{item}" for item in history]
    tokens += [f"cate:{1 + category(item)}" for item in history]
    tokens += [f"position:{len(history) - i}" for i in range(len(history))]
    tokens += [f"target:{sample.target}", f"target_cate:{1 + category(sample.target)}"]
    return " ".join([*tokens, f"label:{sample.click}"])


def write(target: Path, samples: list[Sample], line: Callable[[Sample], str]) -> None:
    """Write the parts of one layout."""
    begin = 0
    for name, count in PARTS.items():
        chosen = samples[begin : begin + count]
        text = "".join(f"{line(sample)}\n" for sample in chosen)
        path = target / f"{name}.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
        clicked = np.mean([sample.click for sample in chosen])
        print(f"{path}: {count} samples, {clicked:.1%} clicked, {path.stat().st_size} bytes")
        begin += count


if __name__ == "__main__":
    main()
