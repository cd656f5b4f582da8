"""Small native tables for tests of their files."""

import tempfile
from pathlib import Path

import numpy as np

from fleetrec._native import BatchLookup, Cut, LogRecord, Table


def make_native_table(
    *,
    name="t",
    dim=2,
    num_rows=None,
    hash_ids=False,
    optimizer="adagrad",
    admission=("always", 0.0, 0.0, 0.0),
    guards=None,
):
    return Table(
        name=name,
        dim=dim,
        num_rows=num_rows,
        hash_ids=hash_ids,
        salt=7,
        initial=("uniform", 0.0, 0.1),
        optimizer=optimizer,
        hyperparameters={},
        guards=guards or {},
        admission=admission,
    )


def train(table, ids, *, now=0, labels=None, step=True):
    """Show each id as a sample of its own and, unless told not to, apply a gradient of ones."""
    lookup = BatchLookup([table], [(0, 0, "sum")], [])
    offsets = np.arange(len(ids) + 1)
    lookup.find(np.array(ids, np.int64), offsets, len(ids), training=True, now=now, labels=labels)
    vectors = np.zeros((len(ids), columns(table)["rows"].shape[1]), np.float32)
    lookup.pool(vectors)
    if step:
        lookup.apply(np.ones_like(vectors), lr=0.1)
    return lookup, vectors


def push(table, ids):
    width = columns(table)["rows"].shape[1]
    table.push(np.array(ids, np.int64), np.full((len(ids), width), 0.5, np.float32), lr=0.1)


def columns(table):
    return table.snapshot()


def content(table):
    """Return everything that a base of the table holds, but for version and parents."""
    with tempfile.TemporaryDirectory() as directory:
        Cut(table).write(directory, kind="base")
        (path,) = Path(directory).iterdir()
        blocks = path.read_bytes()
    header_bytes = int.from_bytes(blocks[12:16], "little")
    return blocks[header_bytes:-40]


def same(one, other):
    return content(one) == content(other)


def train_and_log(table, log, ids, *, now=0, labels=None, evicted=(), **request):
    """Do one step, and append to the log what it did."""
    lookup, vectors = train(table, ids, now=now, labels=labels, step=False)
    record = LogRecord()
    record.add_impressions(0, *lookup.impressions(0, labels=labels), now=now)
    grads = np.linspace(-1, 1, vectors.size, dtype=np.float32).reshape(vectors.shape)
    ((moved, sums),) = lookup.apply_returning_grads(grads, lr=0.1)
    record.add_push(0, moved, sums, lr=0.1)
    if len(evicted):
        table.evict(np.array(evicted, np.int64))
        record.add_eviction(0, np.array(evicted, np.int64))
    return log.append(record, **request)
