"""All rank models on one data set: parameters, speed beside rank/dnn, and AUC over seeds.

Samples have ids and numbers; clicks depend a little on each and a lot on hidden pairs, see
tools/make_field_data.py. Every model reads the same samples in the layout of one slot per field.
Models over histories cannot; they have a table of their own, on the sample data of their configs.

usage: python -m benchmarks.zoo [--samples N] [--epochs N] [--seeds N] [--models a,b] [--write]
"""

import argparse
import dataclasses
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from fleetrec.cli.job import load_job
from fleetrec.config.job import (
    DatasetOptions,
    DenseSlot,
    OptimizerOptions,
    PhaseOptions,
    RunOptions,
)
from fleetrec.config.yaml_dialect.locate import ZOO, zoo_names
from fleetrec.core.progress import Progress
from fleetrec.data.loader import Loader
from fleetrec.models.history import HistoryOptions
from fleetrec.models.load import load_model_class
from fleetrec.parallel.solo import SoloGroup
from fleetrec.train.metrics import PassMetrics
from fleetrec.train.phase import Phase, build_phase
from tools.make_field_data import NUM_VALUES, Samples, draw_samples

NUM_FIELDS, NUM_NUMBERS = 20, 6
BATCH_SIZE = 256
BASELINE = "rank/dnn"
PAGE = Path(__file__).parents[1] / "docs" / "zoo.md"
LEARNING_RATE = 0.002
SHARED = {"sparse_feature_number": NUM_FIELDS * NUM_VALUES + 1, "sparse_feature_dim": 8}
# Where the defaults are meant for larger data than this.
SMALLER: dict[str, dict[str, Any]] = {
    "rank/fgcnn": {"filters": (6, 8), "pooling_size": (2, 2), "new_filters": (3, 3)},
    "rank/AutoInt": {"n_head": 2, "d_key": 16, "d_value": 16},
    "rank/deep_crossing": {"reg": 0.0},
    "rank/pnn": {"reg": 0.0},
}
HIDDEN = {"fc_sizes": (128, 64), "mlp1_sizes": (128, 64), "mlp2_sizes": (128, 64)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """What one model did."""

    name: str
    num_parameters: int
    rows_per_s: float
    aucs: tuple[float, ...]


def main() -> None:
    """Measure, print the table, and put it into docs/zoo.md if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=24000)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--models", default=",".join(n for n in zoo_names() if n[:5] == "rank/"))
    parser.add_argument("--write", action="store_true", help="write docs/zoo.md")
    options = parser.parse_args()
    asked = {BASELINE, *options.models.split(",")}
    names = sorted(name for name in asked if not reads_histories(name))
    with tempfile.TemporaryDirectory() as folder:
        data = write_data(Path(folder), num_samples=options.samples)
        rows = [
            measure(name, data, num_epochs=options.epochs, num_seeds=options.seeds)
            for name in names
        ]
    histories = [
        measure_on_own_data(name, num_seeds=options.seeds) for name in sorted(asked - set(names))
    ]
    text = to_markdown(rows)
    if histories:
        speed = next(row.rows_per_s for row in rows if row.name == BASELINE)
        text += f"\nOver histories, on the sample data:\n\n{to_markdown(histories, speed=speed)}"
    print(text)
    if options.write:
        write_page(text, num_samples=options.samples, num_epochs=options.epochs)


def write_data(folder: Path, *, num_samples: int) -> Path:
    """Write samples as slot text, one slot per field; a quarter of them is for judging."""
    samples = draw_samples(
        num_fields=NUM_FIELDS, num_numbers=NUM_NUMBERS, seed=1, num_samples=num_samples
    )
    lines = list(_lines(samples))
    cut = num_samples * 3 // 4
    for part, chosen in (("train", lines[:cut]), ("test", lines[cut:])):
        (folder / part).write_text("".join(chosen), encoding="ascii")
    return folder


def _lines(samples: Samples) -> Iterator[str]:
    columns = (samples.clicks.tolist(), samples.values.tolist(), samples.numbers.tolist())
    for click, values, numbers in zip(*columns, strict=True):
        ids = (f"{f + 1}:{f * NUM_VALUES + value + 1}" for f, value in enumerate(values))
        yield " ".join([f"click:{click}", *ids, *(f"number:{x:g}" for x in numbers)]) + "\n"


def measure(name: str, data: Path, *, num_epochs: int, num_seeds: int) -> Row:
    """Train with each seed; the speed is that of the fastest epoch."""
    aucs, speeds, num_parameters = [], [], 0
    for seed in range(num_seeds):
        phase = build(name, data / "train", seed=seed)
        num_parameters = sum(p.numel() for p in phase.model.parameters())
        speeds += [train_epoch(phase, epoch) for epoch in range(num_epochs)]
        aucs.append(auc_of(phase, data / "test"))
    print(f"{name}: {statistics.mean(aucs):.4f}", flush=True)
    return Row(name=name, num_parameters=num_parameters, rows_per_s=max(speeds), aucs=tuple(aucs))


def reads_histories(name: str) -> bool:
    """Tell whether a model needs lists of items in their order."""
    return issubclass(load_model_class(ZOO / name / "model.py").Config, HistoryOptions)


def measure_on_own_data(name: str, *, num_seeds: int) -> Row:
    """Train as the config of the model says, with each seed."""
    train, infer = load_job(name, overrides=()).runs
    aucs, speeds, num_parameters = [], [], 0
    for seed in range(num_seeds):
        run = train.model_copy(update={"seed": seed})
        phase = build_phase(train.phases[0], run, SoloGroup(torch.device("cpu")))
        num_parameters = sum(p.numel() for p in phase.model.parameters())
        speeds += [train_epoch(phase, epoch) for epoch in range(train.num_epochs or 1)]
        aucs.append(auc_of(phase, infer.phases[0].dataset.data_path))
    print(f"{name}: {statistics.mean(aucs):.4f}", flush=True)
    return Row(name=name, num_parameters=num_parameters, rows_per_s=max(speeds), aucs=tuple(aucs))


def build(name: str, data_path: Path, *, seed: int) -> Phase:
    """Build a model of the zoo on the common data."""
    model_path = ZOO / name / "model.py"
    config = load_model_class(model_path).Config
    given = {**SHARED, **HIDDEN, **SMALLER.get(name, {})}
    options = PhaseOptions(
        name="zoo",
        model_path=model_path,
        model=config.model_validate({k: v for k, v in given.items() if k in config.model_fields}),
        optimizer=OptimizerOptions(name="adam", lr=LEARNING_RATE),
        dataset=DatasetOptions(
            name="pairs",
            data_path=data_path,
            batch_size=BATCH_SIZE,
            sparse=("click", *(str(f + 1) for f in range(NUM_FIELDS))),
            dense=(DenseSlot(name="number", shape=(NUM_NUMBERS,)),),
        ),
    )
    run = RunOptions(name="zoo", kind="train", phases=(options,), seed=seed)
    return build_phase(options, run, SoloGroup(torch.device("cpu")))


def train_epoch(phase: Phase, epoch: int) -> float:
    """Train on all samples once; returns rows per second."""
    num_rows, begin_s = 0, time.perf_counter()
    progress = Progress()
    with phase.loader.epoch(epoch) as batches:
        for batch in batches:
            progress = progress.after_batch(batch.cursor)
            phase.stepper.train(batch, progress=progress)
            num_rows += batch.num_samples
    return num_rows / (time.perf_counter() - begin_s)


def auc_of(phase: Phase, data_path: Path | str) -> float:
    """Evaluate a model on other samples."""
    options = phase.options.dataset.model_copy(update={"data_path": str(data_path)})
    metrics = PassMetrics(phase.model.tasks)
    with phase.stepper.evaluating(), Loader(options, seed=0).epoch(0) as batches:
        for batch in batches:
            result = phase.stepper.evaluate(batch)
            metrics.count(result.outputs, batch, result.loss)
    return metrics.values()["AUC"]


def to_markdown(rows: Sequence[Row], *, speed: float | None = None) -> str:
    """Return the table, best AUC first; ``speed`` is that of the baseline if it is not in it."""
    baseline = speed or next(row.rows_per_s for row in rows if row.name == BASELINE)
    lines = [
        f"| AUC, mean of {len(rows[0].aucs)} seeds | from - to | model | dense parameters "
        "| rows/s beside dnn |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {statistics.mean(row.aucs):.4f} | {min(row.aucs):.4f} - {max(row.aucs):.4f} "
        f"| `{row.name}` | {row.num_parameters:,} | {row.rows_per_s / baseline:.2f} |"
        for row in sorted(rows, key=lambda row: -statistics.mean(row.aucs))
    ]
    return "\n".join(lines) + "\n"


def write_page(table: str, *, num_samples: int, num_epochs: int) -> None:
    """Put the table between the marks of the page."""
    begin, end = "<!-- begin of table -->\n", "<!-- end of table -->\n"
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    tail = rest.partition(end)[2]
    about = f"{num_samples:,} samples, {num_epochs} epochs over three quarters of them.\n\n"
    PAGE.write_text(f"{head}{begin}\n{about}{table}\n{end}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
