"""Every reader from file to batches, beside the fastest public reader of its format."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.figure import Figure, ratios
from benchmarks.job import dataset
from fleetrec.core.batch import Batch
from fleetrec.data.convert import convert, single_valued
from fleetrec.data.loader import Loader

PARQUET_TARGET = 0.8


def measure(parts: Sequence[Path], *, batch_size: int, num_rounds: int) -> list[Figure]:
    """Convert one part into each format, then read the files in turns."""
    folder = parts[0].parent.with_name(f"{parts[0].parent.name}_formats")
    files = {to: folder / f"part.{to}" for to in ("csv", "parquet", "arrow")}
    for to, path in files.items():
        if not path.is_file():
            _convert(parts[0], path, to=to, batch_size=batch_size)
    files["slot_text"] = parts[0]
    public: dict[str, Callable[[Path], int]] = {"csv": _scan_csv, "parquet": _scan_parquet}
    ours: dict[str, list[float]] = {name: [] for name in files}
    theirs: dict[str, list[float]] = {name: [] for name in public}
    for _ in range(num_rounds + 1):  # the first finds nothing in the page cache
        for name, path in files.items():
            ours[name].append(_speed(lambda path: _read(path, batch_size), path))
            if name in public:
                theirs[name].append(_speed(public[name], path))
    figures = []
    for name in files:
        compared = name in public
        figures.append(
            Figure(
                name=f"readers: {name}{' over pyarrow' if compared else ''}",
                values=ours[name][1:],
                unit="rows/s",
                ratios=ratios(ours[name][1:], theirs[name][1:]) if compared else (),
                target=PARQUET_TARGET if name == "parquet" else None,
            )
        )
    return figures


def _convert(source: Path, target: Path, *, to: str, batch_size: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    loader = Loader(dataset(source, batch_size=batch_size), seed=0)
    with loader.epoch(0) as batches:
        single = single_valued(batches, loader.inputs)
    with loader.epoch(0) as batches:
        convert(batches, target, to=to, inputs=loader.inputs, single=single)


def _read(path: Path, batch_size: int) -> int:
    """Read as a training run does, into batches of tensors."""
    loader = Loader(dataset(path, batch_size=batch_size), seed=0)
    with loader.epoch(0) as batches:
        return _count(batches)


def _count(batches: Iterator[Batch]) -> int:
    return sum(batch.num_samples for batch in batches)


def _scan_csv(path: Path) -> int:
    with pyarrow.csv.open_csv(path) as reader:
        return sum(batch.num_rows for batch in reader)


def _scan_parquet(path: Path) -> int:
    with pq.ParquetFile(path) as file:
        return sum(batch.num_rows for batch in file.iter_batches())


def _speed(read: Callable[[Path], int], path: Path) -> float:
    begin = time.perf_counter()
    num_rows = read(path)
    return num_rows / (time.perf_counter() - begin)
