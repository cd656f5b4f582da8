"""Saves a large table, or publishes serving models of it, and prints how its memory grew."""

import resource
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

from fleetrec.checkpoint.folder import open_folder, write_folder
from fleetrec.checkpoint.tensors import encode_tensors
from fleetrec.core.batch import Inputs
from fleetrec.core.progress import Progress
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.table import RowOptimizer, TableConfig
from fleetrec.export.inference import plan_inference
from fleetrec.export.serving import ServingPublisher, ServingRequest
from fleetrec.models.base import Model
from fleetrec.tasks.binary import BinaryTask
from fleetrec.train.checkpoint_export import publish_export

DIM = 32
NUM_ROWS = 2_000_000
BLOCK = 100_000
TABLE = TableConfig(name="items", dim=DIM)


class Large(Model):
    """A linear layer over one table."""

    def __init__(self):
        super().__init__(tasks=[BinaryTask(label="click")])
        feature = EmbeddedFeature(feature="item", table="items")
        self.embeddings = EmbeddingCollection(features=[feature], tables=[TABLE])
        self.out = nn.Linear(DIM + 2, 1)

    def forward(self, batch):
        item_BD = self.embeddings(batch).cat(["item"])
        return {"logit": self.out(torch.cat([item_BD, batch.dense["price"]], dim=1)).squeeze(1)}


def save(folder):
    """Write a base, and a delta in which 1000 rows are gone and 50000 changed."""
    store = NativeStore(TABLE, RowOptimizer(name="adagrad"), seed=0)
    rng = np.random.default_rng(0)
    for first in range(0, NUM_ROWS, BLOCK):
        rows = rng.standard_normal((BLOCK, DIM)).astype(np.float32)
        store.table.add_rows(ids=np.arange(first, first + BLOCK), rows=rows)
    _write(store, folder / "checkpoint-1", None)
    store.table.evict(np.arange(1000))
    store.table.write(np.arange(1000, 51_000), np.ones((50_000, DIM), np.float32))
    _write(store, folder / "checkpoint-2", "../checkpoint-1")


def _write(store, url, parent):
    written = []

    def fill(staging):
        with staging.folder("learn/tables") as folder:
            written.append(store.write(folder / "items", parent=parent))
        return {"tables": {"learn": {"items": written[0].record.to_plain()}}}

    tensors = encode_tensors({"learn/model": Large().state_dict()})
    meta = {"kind": "checkpoint", "run_id": "0123456789abcdef", "progress": Progress().to_dict()}
    write_folder(url, contents=tensors, meta=meta, fill=fill)
    written[0].commit()


def publish(folder):
    """Publish both; the conversion is not counted."""
    inputs = Inputs(sparse=("item",), dense={"click": (1,), "price": (2,)})
    model = plan_inference(Large(), inputs, feeds=(), fetches=())
    model.convert()
    publisher = ServingPublisher(model, phase="learn", folder=str(folder))
    before = _peak_bytes()
    for number, kind in ((1, "base"), (2, "delta")):
        request = ServingRequest(url=str(folder / kind), kind=kind, id=number)
        publisher.publish(str(folder / f"checkpoint-{number}"), request)
    return _peak_bytes() - before


def export(folder):
    """Make an inference model of the delta and its base; the conversion is not counted."""
    inputs = Inputs(sparse=("item",), dense={"click": (1,), "price": (2,)})
    model = plan_inference(Large(), inputs, feeds=(), fetches=())
    model.convert()
    before = _peak_bytes()
    checkpoint = open_folder(folder / "checkpoint-2", kind="checkpoint")
    publish_export(model, checkpoint, "learn", str(folder / "exported"))
    return _peak_bytes() - before


def _peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    step = {"save": save, "publish": publish, "export": export}[sys.argv[1]]
    print(step(Path(sys.argv[2])) or 0)  # noqa: T201
