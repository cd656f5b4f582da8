"""Make the sample data of the models over fields: small, fixed by a seed, and learnable.

The chance of a click depends a little on each id and number alone, and a lot on how well the
hidden vectors of some ids fit each other. So a linear model finds something, and a model that sees
pairs finds much more. The same samples are written in several layouts, since each model reads the
one that it always read.

usage: python tools/make_field_data.py [FOLDER]
"""

import dataclasses
import gzip
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

SEED = 20201130
NUM_VALUES = 6  # different ids of a field
NUM_PAIRED = 6  # fields whose hidden vectors fit each other or not
HIDDEN_DIM = 2
PARTS = {"train/part-0": 1800, "train/part-1": 1800, "test/part-0": 1200}
TARGET = Path(__file__).parents[1] / "src/fleetrec/models/rank"

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Samples:
    """Clicks, values of fields counted from 0, and numbers."""

    clicks: Ints
    values: Ints
    numbers: Floats


def main() -> None:
    """Write all files of all layouts."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET
    criteo = draw_samples(num_fields=26, num_numbers=13, seed=SEED)
    write(target / "dataset/criteo_fields", criteo, indexed_line)
    write(target / "dcn/data/sample_data", criteo, named_line)
    sizes = "".join(f"C{field + 1} {NUM_VALUES}\n" for field in range(26))
    (target / "dcn/data/sample_data/cat_feature_num.txt").write_text(sizes)
    avazu = draw_samples(num_fields=21, num_numbers=0, seed=SEED + 1, num_values=4)
    write(target / "flen/data/sample_data", avazu, grouped_line)
    census = draw_samples(num_fields=9, num_numbers=12, seed=SEED + 2)
    write(target / "wide_deep/data/sample_data", census, wide_line)


def draw_samples(
    *,
    num_fields: int,
    num_numbers: int,
    seed: int,
    num_values: int = NUM_VALUES,
    num_samples: int = sum(PARTS.values()),
) -> Samples:
    """Draw values and numbers, and clicks from them."""
    rng = np.random.default_rng(seed)
    chances = 1.0 / np.sqrt(np.arange(1, num_values + 1))
    chances /= chances.sum()
    values = rng.choice(num_values, (num_samples, num_fields), p=chances)
    numbers = np.round(rng.beta(1.5, 3.0, (num_samples, num_numbers)), 2)
    fields = np.arange(num_fields)
    linear = rng.normal(0, 0.25, (num_fields, num_values))[fields, values].sum(1)
    hidden = rng.normal(0, 0.9, (NUM_PAIRED, num_values, HIDDEN_DIM))
    # Without this, part of the pairs would be visible to a linear model.
    hidden -= (chances[None, :, None] * hidden).sum(1, keepdims=True)
    paired = np.linspace(0, num_fields - 1, NUM_PAIRED).astype(int)
    met = hidden[np.arange(NUM_PAIRED), values[:, paired]]
    pairs = 0.5 * (met.sum(1) ** 2 - (met**2).sum(1)).sum(1)
    logits = linear + pairs + (numbers - numbers.mean(0)) @ rng.normal(0, 0.8, num_numbers)
    logits = logits - logits.mean() - 0.9
    clicks = rng.random(num_samples) < 1 / (1 + np.exp(-logits))
    return Samples(clicks=clicks.astype(np.int64), values=values, numbers=numbers)


def indexed_line(click: int, values: Ints, numbers: Floats) -> Iterator[str]:
    """Yield one id and one value per field: numbers first, each with an id of its own."""
    first = len(numbers) + 1
    ids = first + np.arange(len(values)) * NUM_VALUES + values
    yield f"label:{click}"
    yield from (f"feat_idx:{i}" for i in [*range(1, first), *ids.tolist()])
    yield from (f"feat_value:{x:g}" for x in numbers)
    yield from ("feat_value:1" for _ in values)


def named_line(click: int, values: Ints, numbers: Floats) -> Iterator[str]:
    """Yield a slot per number and per field, with ids from 0 in each."""
    yield f"label:{click}"
    yield from (f"I{i}:{x:g}" for i, x in enumerate(numbers, start=1))
    yield from (f"C{i}:{value}" for i, value in enumerate(values, start=1))


def grouped_line(click: int, values: Ints, _numbers: Floats) -> Iterator[str]:
    """Yield slots of users, items and circumstances; ids below 100 in all."""
    groups = [*(f"user_{i}" for i in range(12)), *(f"item_{i}" for i in range(3))]
    groups += [f"contex_{i}" for i in range(6)]
    yield f"click:{click}"
    yield from (
        f"{slot}:{4 * place + value}"
        for place, (slot, value) in enumerate(zip(groups, values, strict=True))
    )


def wide_line(click: int, values: Ints, numbers: Floats) -> Iterator[str]:
    """Yield 8 wide numbers, and 58 deep ones: 4 numbers and 9 fields as zeros and ones."""
    hot = np.zeros((len(values), NUM_VALUES), np.int64)
    hot[np.arange(len(values)), values] = 1
    yield f"label:{click}"
    yield from (f"wide_input:{x:g}" for x in numbers[:8])
    yield from (f"deep_input:{x:g}" for x in [*numbers[8:], *hot.reshape(-1)])


def write(
    target: Path, samples: Samples, line: Callable[[int, Ints, Floats], Iterator[str]]
) -> None:
    """Write the parts of one layout."""
    begin = 0
    for name, count in PARTS.items():
        rows = slice(begin, begin + count)
        columns = zip(
            samples.clicks[rows].tolist(), samples.values[rows], samples.numbers[rows], strict=True
        )
        text = "".join(" ".join(line(*sample)) + "\n" for sample in columns)
        path = target / f"{name}.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
        clicked = samples.clicks[rows].mean()
        print(f"{path}: {count} samples, {clicked:.1%} clicked, {path.stat().st_size} bytes")
        begin += count


if __name__ == "__main__":
    main()
