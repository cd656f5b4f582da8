"""Every reader from file to batches, beside the fastest public reader of its format."""

import functools
import importlib
import importlib.util
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.criteo_like import DENSE, LABEL, SPARSE
from benchmarks.figure import Figure, ratios
from benchmarks.job import dataset
from fleetrec.checkpoint.publish import publish
from fleetrec.config.job import DatasetOptions
from fleetrec.core.batch import Batch
from fleetrec.data.convert import convert, single_valued
from fleetrec.data.loader import Loader

PARQUET_TARGET = 0.8
INSTALL = "pip install --no-deps tfrecord==1.14.6 crc32c"

# Formats of many samples in one file, as long as several row groups; and those whose public reader
# is slow, or that have none.
LONG = ("csv", "parquet", "arrow")
SHORT = ("tfrecord", "wire_text", "libffm")


def measure(
    parts: Sequence[Path],
    *,
    batch_size: int,
    num_rounds: int,
    say: Callable[[str], None] = print,
) -> list[Figure]:
    """Convert the samples into each format, then read the files in turns."""
    files = _files(parts, batch_size=batch_size)
    ours = {name: _options(name, path, batch_size=batch_size) for name, path in files.items()}
    public: dict[str, Callable[[Path], int]] = {"csv": _scan_csv, "parquet": _scan_parquet}
    if importlib.util.find_spec("tfrecord") is not None:
        public["tfrecord"] = _scan_records
    else:
        say(f"readers: no public reader of TFRecord is installed to compare with; {INSTALL}")
    speeds: dict[str, list[float]] = {name: [] for name in ours}
    theirs: dict[str, list[float]] = {name: [] for name in public}
    for _ in range(num_rounds + 1):  # the first finds nothing in the page cache
        for name, options in ours.items():
            speeds[name].append(_speed(functools.partial(_read, options)))
            if name in public:
                theirs[name].append(_speed(functools.partial(public[name], files[name])))
    return [_figure(name, speeds[name][1:], theirs.get(name, [])[1:]) for name in ours]


def _figure(name: str, ours: Sequence[float], theirs: Sequence[float]) -> Figure:
    public = {"csv": " over pyarrow", "parquet": " over pyarrow", "tfrecord": " over tfrecord"}
    return Figure(
        name=f"readers: {name}{public[name] if theirs else ''}",
        values=ours,
        unit="rows/s",
        ratios=ratios(ours, theirs) if theirs else (),
        target=PARQUET_TARGET if name == "parquet" else None,
    )


def _files(parts: Sequence[Path], *, batch_size: int) -> dict[str, Path]:
    folder = parts[0].parent.with_name(f"{parts[0].parent.name}_readers")
    if not folder.is_dir():
        publish(folder, lambda staging: _write_all(parts, staging, batch_size=batch_size))
    files = {name: folder / f"part.{name}" for name in (*LONG, *SHORT)}
    return {"slot_text": parts[0].parent, **files, "pipe": files["wire_text"]}


def _write_all(parts: Sequence[Path], folder: Path, *, batch_size: int) -> None:
    for name in (*LONG, *SHORT):
        source = parts[0].parent if name in LONG else parts[0]
        _write(source, folder / f"part.{name}", name, batch_size)


def _options(name: str, path: Path, *, batch_size: int) -> DatasetOptions:
    options = dataset(path, batch_size=batch_size)
    if name == "pipe":
        return options.model_copy(update={"format": "pipe", "pipe_command": "cat"})
    if name == "libffm":  # has no place for numbers
        return options.model_copy(update={"dense": ()})
    return options.model_copy(update={"format": name})


def _write(source: Path, target: Path, to: str, batch_size: int) -> None:
    loader = Loader(dataset(source, batch_size=batch_size), seed=0)
    if to in ("wire_text", "libffm"):
        with loader.epoch(0) as batches, target.open("w", encoding="utf-8") as stream:
            for batch in batches:
                stream.writelines(_wire_lines(batch) if to == "wire_text" else _ffm_lines(batch))
        return
    with loader.epoch(0) as batches:
        single = single_valued(batches, loader.inputs)
    with loader.epoch(0) as batches:
        convert(batches, target, to=to, inputs=loader.inputs, single=single)


def _wire_lines(batch: Batch) -> Iterator[str]:
    """Yield samples as a program of the user's prints them; every sparse slot has one id."""
    ids = [batch.ids[name].values.tolist() for name in (LABEL, *SPARSE)]
    for numbers, sample in zip(batch.dense[DENSE].tolist(), zip(*ids, strict=True), strict=True):
        dense = " ".join(f"{number:.6g}" for number in numbers)
        yield f"{len(numbers)} {dense} {' '.join(f'1 {i}' for i in sample)}\n"


def _ffm_lines(batch: Batch) -> Iterator[str]:
    ids = [batch.ids[name].values.tolist() for name in SPARSE]
    labels = batch.ids[LABEL].values.tolist()
    for label, sample in zip(labels, zip(*ids, strict=True), strict=True):
        tokens = " ".join(f"{name}:{i}:1" for name, i in zip(SPARSE, sample, strict=True))
        yield f"{label} {tokens}\n"


def _read(options: DatasetOptions) -> int:
    """Read as a training run does, into batches of tensors."""
    with Loader(options, seed=0).epoch(0) as batches:
        return sum(batch.num_samples for batch in batches)


def _scan_csv(path: Path) -> int:
    with pyarrow.csv.open_csv(path) as reader:
        return sum(batch.num_rows for batch in reader)


def _scan_parquet(path: Path) -> int:
    with pq.ParquetFile(path) as file:
        return sum(batch.num_rows for batch in file.iter_batches())


def _scan_records(path: Path) -> int:
    """Read records into dicts of arrays, one each."""
    reader: Any = importlib.import_module("tfrecord.reader")
    return sum(1 for _ in reader.tfrecord_loader(str(path), None))


def _speed(read: Callable[[], int]) -> float:
    begin = time.perf_counter()
    num_rows = read()
    return num_rows / (time.perf_counter() - begin)
