"""The same samples written in every format, for the contract of sources."""

import dataclasses
import gzip
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fleetrec.config.job import DatasetOptions, DenseSlot
from fleetrec.data.files import list_files
from fleetrec.data.source import FileSlice, Source, build_source
from reference.crc32c import crc32c

Sample = Mapping[str, Sequence[float]]  # a feature that is not there is missing

SPARSE = ("click", "1", "2")
DENSE = ("d", 2)
READERS = Path(__file__).parent / "readers"


def make_samples(num_samples: int, *, seed: int = 0) -> list[Sample]:
    """Samples with one label, one id, a list of any length (also none), and two numbers or none."""
    rng = np.random.default_rng(seed)
    samples: list[Sample] = []
    for i in range(num_samples):
        sample: dict[str, list[float]] = {"click": [int(rng.integers(0, 2))]}
        sample["1"] = [int(rng.integers(-(2**63), 2**63 - 1))]
        length = int(rng.integers(0, 4))
        if length:
            sample["2"] = [int(x) for x in rng.integers(0, 1000, length)]
        if i % 3:
            sample["d"] = [round(float(x), 4) for x in rng.normal(size=2)]
        samples.append(sample)
    return samples


@dataclasses.dataclass(frozen=True, kw_only=True)
class Format:
    """How one format is written, and what of the samples it can hold."""

    name: str
    write: Callable[[Sequence[Sample]], bytes]
    suffix: str = ""
    sparse: tuple[str, ...] = SPARSE
    has_dense: bool = True
    has_weights: bool = False
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    bad: bytes = b""  # a row that is no sample
    can_cut: bool = True

    def __str__(self) -> str:
        return str(self.options.get("id", self.name))

    def dataset(self, path: Path, **more: Any) -> DatasetOptions:
        """Options that read a path in this format."""
        given = {
            "name": "data",
            "data_path": str(path),
            "batch_size": 4,
            "format": self.name,
            "sparse": self.sparse,
            "dense": (DenseSlot(name=DENSE[0], shape=(DENSE[1],)),) if self.has_dense else (),
            **{key: value for key, value in self.options.items() if key != "id"},
            **more,
        }
        return DatasetOptions.model_validate(given)


def open_source(options: DatasetOptions) -> tuple[Source, FileSlice]:
    """The source, and the whole of its first file."""
    files = list_files(options.data_path)
    part = FileSlice(file=files[0], num_bytes=files[0].num_bytes)
    return build_source(options, files), part


def write_slot_text(samples: Sequence[Sample]) -> bytes:
    return b"".join(
        " ".join(f"{name}:{v}" for name, values in sample.items() for v in values).encode() + b"\n"
        for sample in samples
    )


def write_wire_text(samples: Sequence[Sample]) -> bytes:
    lines = []
    for sample in samples:
        lists = [sample.get(name, ()) for name in (DENSE[0], *SPARSE)]
        lines.append(" ".join(" ".join([str(len(v)), *map(str, v)]) for v in lists) + "\n")
    return "".join(lines).encode()


def write_libsvm(samples: Sequence[Sample]) -> bytes:
    lines = []
    for sample in samples:
        ids = " ".join(f"{v}:1" for v in sample.get("2", ()))
        lines.append(f"{sample['click'][0]} {ids}\n")
    return "".join(lines).encode()


def write_libffm(samples: Sequence[Sample]) -> bytes:
    lines = []
    for sample in samples:
        ids = " ".join(f"{f}:{v}:1" for f in ("1", "2") for v in sample.get(f, ()))
        lines.append(f"{sample['click'][0]} {ids}\n")
    return "".join(lines).encode()


def write_tfrecord(samples: Sequence[Sample]) -> bytes:
    return b"".join(to_record(to_example(sample)) for sample in samples)


def to_record(data: bytes) -> bytes:
    """A TFRecord: length, masked checksum of it, bytes, masked checksum of them."""
    length = struct.pack("<Q", len(data))
    return length + _masked(length) + data + _masked(data)


def _masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def to_example(sample: Mapping[str, Sequence[float | bytes]], *, packed: bool = True) -> bytes:
    """A tf.Example: integers as int64_list, floats as float_list, bytes as bytes_list."""
    entries = b""
    for name, values in sample.items():
        entry = field(1, name.encode()) + field(2, to_feature(values, packed=packed))
        entries += field(1, entry)
    return field(1, entries)


def to_feature(values: Sequence[float | bytes], *, packed: bool = True) -> bytes:
    if values and isinstance(values[0], bytes):
        return field(1, b"".join(field(1, value) for value in values))
    if values and isinstance(values[0], float):
        floats = [struct.pack("<f", value) for value in values]
        inner = field(1, b"".join(floats)) if packed else b"".join(b"\x0d" + f for f in floats)
        return field(2, inner)
    numbers = [varint(value) for value in values]
    inner = field(1, b"".join(numbers)) if packed else b"".join(b"\x08" + n for n in numbers)
    return field(3, inner)


def field(number: int, data: bytes) -> bytes:
    """A field of bytes."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(number: int) -> bytes:
    number %= 2**64
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def gzipped(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


FORMATS = (
    Format(name="slot_text", write=write_slot_text, bad=b"1:x\n"),
    Format(name="wire_text", write=write_wire_text, bad=b"0 1 1 1 x 0\n"),
    Format(
        name="libsvm",
        write=write_libsvm,
        suffix=".libsvm",
        sparse=("click", "2"),
        has_dense=False,
        has_weights=True,
        bad=b"1 2\n",
    ),
    Format(
        name="libffm",
        write=write_libffm,
        suffix=".ffm",
        has_dense=False,
        has_weights=True,
        bad=b"1 1:2\n",
    ),
    Format(
        name="tfrecord",
        write=write_tfrecord,
        suffix=".tfrecord",
        bad=to_record(to_example({"1": [0.5]})),
    ),
    Format(
        name="pipe",
        write=write_slot_text,
        options={"pipe_command": f"{sys.executable} {READERS / 'slots.py'}"},
        bad=b"bad\n",
        can_cut=False,
    ),
    Format(
        name="user_reader",
        write=write_slot_text,
        options={"id": "line_reader", "reader": {"path": READERS / "slots.py"}},
        bad=b"1:x\n",
    ),
    Format(
        name="user_reader",
        write=write_slot_text,
        options={
            "id": "file_reader",
            "reader": {"path": READERS / "slots.py", "class_name": "read"},
        },
        bad=b"1:x\n",
        can_cut=False,
    ),
)
