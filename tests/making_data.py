"""The same samples in every format: writers for tests of the sources.

A sample is a dict: an id or a list of ids (numbers or text) per sparse feature, a list of numbers
per dense one; what is missing or None has no value.
"""

import csv
import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from fleetrec._native import fingerprint64
from fleetrec.config.job import DatasetOptions, DenseSlot
from fleetrec.data.block import Block
from fleetrec.data.files import DataFile, list_files
from fleetrec.data.plan import whole_file
from fleetrec.data.source import RowChunk, Source, build_source

Sample = Mapping[str, Any]

SPARSE = ("click", "item", "tags", "words")
DENSE = (DenseSlot(name="price", shape=(1,)), DenseSlot(name="image", shape=(2, 2)))
SAMPLES: tuple[Sample, ...] = (
    {"click": 1, "item": 7, "tags": [3, 2, 1], "words": ["red", "shoe"], "price": [0.1],
     "image": [1.0, -2.5, 1e-3, 4.0]},
    {"click": 0, "item": 2**64 - 1, "tags": [5], "words": ["größe"], "price": [16777217.0]},
    {"click": 0, "tags": [], "image": [0.0, 0.0, 0.5, 3.25]},
    {"click": 1, "item": -(2**63), "words": ["a" * 100, "b", "red"], "price": [-1.5]},
    {},
    {"click": 1, "item": 0, "tags": [2**63, 0, 0], "words": ["red"], "price": [3.0],
     "image": [1.0, 2.0, 3.0, 4.0]},
)  # fmt: skip


def make_options(path: Path | str, **changes: Any) -> DatasetOptions:
    given = {"name": "data", "batch_size": 4, "sparse": SPARSE, "dense": DENSE, **changes}
    return DatasetOptions(data_path=str(path), **given)


def make_source(path: Path | str, **changes: Any) -> tuple[Source, tuple[DataFile, ...]]:
    files = list_files(str(path))
    return build_source(make_options(path, **changes), files), files


def read_chunks(source: Source, file: DataFile) -> list[RowChunk]:
    return list(source.read(whole_file(file), offset=0, row=0))


def read_block(path: Path | str, **changes: Any) -> Block:
    """All rows of all files in one block."""
    source, files = make_source(path, **changes)
    chunks = [chunk for file in files for chunk in read_chunks(source, file)]
    return source.decode(chunks) if chunks else Block.empty(source.inputs)


def to_comparable(block: Block) -> dict[str, Any]:
    """A block to the last bit, but without what depends on the format: undeclared features."""
    weights = block.ids.weights_N
    return {
        "ids": {name: _lists(block, name) for name in block.ids.names},
        "offsets": block.ids.offsets.tolist(),
        "weights": None if weights is None else weights.tolist(),
        "dense": {
            name: (value.shape, value.numpy().tobytes()) for name, value in block.dense.items()
        },
        "seen": block.counts.seen.tolist(),
        "num_samples": block.counts.num_samples,
    }


def _lists(block: Block, name: str) -> list[list[int]]:
    jagged = block.ids[name]
    return [part.tolist() for part in jagged.values.split(jagged.lengths().tolist())]


def write_slot_text(samples: Sequence[Sample], path: Path) -> Path:
    """Text has no place in slot text: its ids are written."""
    lines = []
    for sample in samples:
        tokens = [f"{name}:{value}" for name in sample for value in _values(sample, name)]
        lines.append(" ".join(tokens))
    return write_text(path, "".join(line + "\n" for line in lines))


def write_csv(samples: Sequence[Sample], path: Path) -> Path:
    names = list(dict.fromkeys(name for sample in samples for name in sample)) or list(SPARSE)
    rows = [["|".join(map(str, _listed(sample, name))) for name in names] for sample in samples]
    path.parent.mkdir(parents=True, exist_ok=True)
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(rows)
    return path


def to_table(samples: Sequence[Sample]) -> pa.Table:
    types = {
        "click": pa.int8(),
        "item": pa.uint64(),
        "tags": pa.list_(pa.uint64()),
        "words": pa.list_(pa.string()),
        "price": pa.float64(),
        "image": pa.list_(pa.float32(), 4),
    }
    columns = {}
    for name in dict.fromkeys([*types, *(name for sample in samples for name in sample)]):
        values = [sample.get(name) for sample in samples]
        if name == "item":
            values = [None if value is None else value % 2**64 for value in values]
        if name == "price":
            values = [value and value[0] for value in values]
        columns[name] = pa.array(values, types.get(name))
    return pa.table(columns)


def write_parquet(samples: Sequence[Sample], path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pa.parquet.write_table(to_table(samples), path, row_group_size=4)
    return path


def write_arrow_file(samples: Sequence[Sample], path: Path) -> Path:
    return _write_ipc(samples, path, pa.ipc.new_file)


def write_arrow_stream(samples: Sequence[Sample], path: Path) -> Path:
    return _write_ipc(samples, path, pa.ipc.new_stream)


def write_text(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


# The name of a file that holds the format -> what writes it.
WRITERS = {
    "slots": write_slot_text,
    "slots.gz": write_slot_text,
    "table.csv": write_csv,
    "table.csv.gz": write_csv,
    "table.parquet": write_parquet,
    "table.arrow": write_arrow_file,
    "table.arrows": write_arrow_stream,
}


def _write_ipc(samples: Sequence[Sample], path: Path, opened: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = to_table(samples)
    with opened(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=4)
    return path


def _listed(sample: Sample, name: str) -> list[Any]:
    value = sample.get(name)
    return value if isinstance(value, list) else [] if value is None else [value]


def _values(sample: Sample, name: str) -> list[Any]:
    return [fingerprint64(v) if isinstance(v, str) else v for v in _listed(sample, name)]
