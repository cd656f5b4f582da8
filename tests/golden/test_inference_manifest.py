"""The manifest of an inference model, as docs/formats/inference.md has it."""

import hashlib
import json

import numpy as np
import pytest
import torch
from torch import nn

from fleetrec.core.batch import Inputs
from fleetrec.core.errors import CheckpointError
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import TableConfig
from fleetrec.export.inference import plan_inference
from fleetrec.export.manifest import ModelManifest, open_model
from fleetrec.models.base import Model
from fleetrec.tasks.binary import BinaryTask

ROWS_FILE = "tables/items/rows-00000.safetensors"
REMOVED_FILE = "tables/items/removed-00000.safetensors"
MANIFEST = """{
 "format_version": 2,
 "kind": "inference model",
 "type": "delta",
 "version": {
  "id": 7,
  "key": 5,
  "day": "20261118"
 },
 "fingerprint": "FINGERPRINT",
 "parent": {
  "id": 6,
  "key": 5,
  "fingerprint": "00112233445566aa"
 },
 "source": {
  "run_id": "0123456789abcdef",
  "tables": {
   "items": "da2f5645496c834a"
  }
 },
 "graphs": [
  {
   "name": "model",
   "file": "model.onnx",
   "feeds": [
    {
     "name": "price",
     "kind": "dense",
     "shape": [
      2
     ]
    },
    {
     "name": "item",
     "kind": "ids",
     "shape": null
    }
   ],
   "fetches": [
    "logit"
   ],
   "groups": [
    {
     "input": "embedded_2",
     "dim": 2,
     "features": [
      {
       "feature": "item",
       "table": "items",
       "combiner": "mean"
      }
     ],
     "sequences": [
      {
       "input": "sequence_item",
       "lengths": "lengths_item",
       "feature": "item",
       "table": "items",
       "max_length": 3
      }
     ]
    }
   ]
  }
 ],
 "tables": {
  "items": {
   "dim": 2,
   "row_type": "float32",
   "hashed_into": 100,
   "content": "changes",
   "num_rows": 2,
   "num_removed": 1,
   "rows": [
    "tables/items/rows-00000.safetensors"
   ],
   "removed": [
    "tables/items/removed-00000.safetensors"
   ],
   "scores": []
  }
 },
 "input": null,
 "items": null,
 "files": {
  "model.onnx": {
   "bytes": GRAPH_BYTES,
   "sha256": "GRAPH_SHA256"
  },
  "tables/items/removed-00000.safetensors": {
   "bytes": 72,
   "sha256": "9a3e1ebaef062ce92e5064ae812533396c4c367bcc1c94f056e473b0d3118612"
  },
  "tables/items/rows-00000.safetensors": {
   "bytes": 160,
   "sha256": "12b261b41ba76044fb56319233e73cb88e84e5c448e898b3af1eae4c062867fd"
  }
 }
}
"""
REMOVED_BYTES = (
    b'8\x00\x00\x00\x00\x00\x00\x00{"ids":{"dtype":"U64","shape":[1],"data_offsets":[0,8]}}'
    b"\x09\x00\x00\x00\x00\x00\x00\x00"
)


ROWS_BYTES = (
    b'x\x00\x00\x00\x00\x00\x00\x00{"ids":{"dtype":"U64","shape":[2],"data_offsets":[0,16]},'
    b'"rows":{"dtype":"F32","shape":[2,2],"data_offsets":[16,32]}}   '
    b"\x03\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00@@\x00\x00\x80@\x00\x00\x80?\x00\x00\x00@"  # 3, 4, 1, 2
)


class Small(Model):
    """One table, pooled and as a sequence."""

    def __init__(self):
        super().__init__(tasks=[BinaryTask(label="click")])
        self.embeddings = EmbeddingCollection(
            features=[
                EmbeddedFeature(feature="item", table="items", combiner="mean"),
                EmbeddedFeature(feature="item", table="items", combiner="none", max_length=3),
            ],
            tables=[TableConfig(name="items", dim=2, num_rows=100, out_of_range="hash")],
        )
        self.out = nn.Linear(6, 1)

    def forward(self, batch):
        embedded = self.embeddings(batch)
        parts = [embedded.pooled("item"), embedded.sequence("item").x_BLD.sum(dim=1)]
        logit_B = self.out(torch.cat([*parts, batch.dense["price"]], dim=1)).squeeze(1)
        return {"logit": logit_B}


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden") / "delta"
    inputs = Inputs(sparse=("item",), dense={"click": (1,), "price": (2,)})
    model = plan_inference(Small(), inputs, feeds=(), fetches=())
    manifest = ModelManifest.model_validate(
        {
            "type": "delta",
            "version": {"id": 7, "key": 5, "day": "20261118"},
            "parent": {"id": 6, "key": 5, "fingerprint": "00112233445566aa"},
            "source": {"run_id": "0123456789abcdef", "tables": {"items": "da2f5645496c834a"}},
            "graphs": (),
            "tables": {},
        }
    )

    def fill(writer, table):
        writer.add(np.array([8, 3], np.uint64), np.array([[1, 2], [3, 4]], np.float32))
        writer.remove(np.array([9], np.uint64))
        return writer.finish(content="changes", hashed_into=table.num_rows)

    model.publish(folder, manifest, fill=fill)
    return folder


def test_the_manifest_of_a_delta(published):
    text = (published / "MANIFEST.json").read_text()
    graph = (published / "model.onnx").read_bytes()
    expected = MANIFEST.replace("GRAPH_BYTES", str(len(graph)))  # its bytes are those of torch
    expected = expected.replace("GRAPH_SHA256", hashlib.sha256(graph).hexdigest())
    found = json.loads(text)
    covered = {key: value for key, value in found.items() if key != "fingerprint"}
    canonical = json.dumps(covered, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    fingerprint = hashlib.sha256(canonical.encode()).hexdigest()[:16]
    assert text == expected.replace("FINGERPRINT", fingerprint)


def test_the_files_of_rows_and_removed_ids(published):
    assert (published / REMOVED_FILE).read_bytes() == REMOVED_BYTES
    assert (published / ROWS_FILE).read_bytes() == ROWS_BYTES


def test_a_published_manifest_is_read(published):
    _, manifest = open_model(published)
    assert manifest.name.startswith("id 7, fingerprint ")
    assert manifest.graph().feeds[0].shape == (2,)


def test_an_older_format_is_refused(published, tmp_path):
    text = (published / "MANIFEST.json").read_text()
    (tmp_path / "MANIFEST.json").write_text(
        text.replace('"format_version": 2', '"format_version": 1')
    )
    with pytest.raises(CheckpointError, match="written in format 1, this version reads format 2"):
        open_model(tmp_path)
