"""Slot text into arrays: the native parser against a Python loop, and the whole loader."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.criteo_like import DENSE, LABEL, NUM_DENSE, SPARSE
from benchmarks.figure import Figure, ratios
from benchmarks.job import dataset
from fleetrec._native import SlotParser, cut_lines
from fleetrec.data.loader import Loader

TARGET = 20.0
PADDING = 0

# The Python loop sees one of so many batches: it needs seconds where the parser needs a blink.
PYTHON_SHARE = 8

Sample = dict[str, list[float]]


def measure(parts: Sequence[Path], *, batch_size: int, num_rounds: int) -> list[Figure]:
    """Measure parser and loop in turns, on the same text, then the loader.

    Parser and loop are one thread each and are timed by the CPU time of that thread: a busy
    machine interrupts the slow one more often.
    """
    text = parts[0].read_bytes()
    batches = list(_batches(text, batch_size))
    few = batches[: max(1, len(batches) // PYTHON_SHARE)]
    few_rows = sum(batch.tobytes().count(b"\n") for batch in few)
    native, python = [], []
    for _ in range(num_rounds):
        begin = time.thread_time()
        num_rows = parse_natively(text, batch_size=batch_size)
        native.append(num_rows / (time.thread_time() - begin))
        begin = time.thread_time()
        for batch in few:
            parse_in_python(batch.tobytes().decode())
        python.append(few_rows / (time.thread_time() - begin))
    megabytes_per_row = len(text) / num_rows / 1e6
    loader = [load(parts[0], batch_size=batch_size, num_rows=num_rows) for _ in range(num_rounds)]
    return [
        Figure(name="slot text: Python loop", values=python, unit="rows/CPU s"),
        Figure(
            name="slot text: native parser",
            values=native,
            unit="rows/CPU s",
            ratios=ratios(native, python),
            target=TARGET,
        ),
        Figure(
            name="slot text: native parser",
            values=[speed * megabytes_per_row for speed in native],
            unit="MB/CPU s",
        ),
        Figure(name="slot text: loader", values=loader, unit="rows/s"),
    ]


def parse_natively(text: bytes, *, batch_size: int) -> int:
    """Cut and parse a text in this thread; returns the number of samples."""
    parser = SlotParser([LABEL, *SPARSE], [(DENSE, NUM_DENSE)], PADDING)
    return sum(parser.parse([batch]).num_samples for batch in _batches(text, batch_size))


def parse_in_python(text: str) -> list[Sample]:
    """Parse as readers in Python do: split, split, look up, convert, append, pad."""
    is_sparse = dict.fromkeys((LABEL, *SPARSE), True) | {DENSE: False}
    widths = dict.fromkeys((LABEL, *SPARSE), 1) | {DENSE: NUM_DENSE}
    samples = []
    for line in text.splitlines():
        sample: Sample = {slot: [] for slot in is_sparse}
        for token in line.strip().split(" "):
            slot, value = token.split(":")
            if slot not in is_sparse:
                continue
            sample[slot].append(int(value) if is_sparse[slot] else float(value))
        for slot, values in sample.items():
            if not values:
                values.extend([PADDING] * widths[slot])
        samples.append(sample)
    return samples


def load(part: Path, *, batch_size: int, num_rows: int) -> float:
    """Read one part through the loader; returns rows per second."""
    loader = Loader(dataset(part, batch_size=batch_size), seed=0)
    begin = time.perf_counter()
    with loader.epoch(0) as batches:
        read = sum(batch.num_samples for batch in batches)
    seconds = time.perf_counter() - begin
    assert read == num_rows, f"the loader gave {read} of {num_rows} rows"
    return read / seconds


def _batches(text: bytes, batch_size: int) -> Iterator[memoryview]:
    begin, view = 0, memoryview(text)
    while begin < len(text):
        end, _ = cut_lines(text, begin, batch_size)
        yield view[begin:end]
        begin = end
