"""What the manifest of a checkpoint says about a table, as docs/formats/checkpoint.md has it."""

import json

import torch

from fleetrec.checkpoint.folder import open_folder, write_folder
from fleetrec.checkpoint.tables import stored_tables
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.table import Admission, Initializer, RowOptimizer, TableConfig

MANIFEST = {
    "format_version": 2,
    "kind": "checkpoint",
    "tables": {
        "learn": {
            "ads": {
                "identity": {
                    "dim": 2,
                    "num_rows": None,
                    "out_of_range": "error",
                    "salt": "135f19fe381f2081",
                    "initializer": {"kind": "constant", "scale": 0.0, "center": 0.5},
                    "optimizer": "adagrad",
                    "hyperparameters": {"initial_accumulator": 0.25, "eps": 1e-06},
                    "guards": {"clip_norm": 3.0},
                    "admission": {
                        "kind": "count",
                        "threshold": 2.0,
                        "show_weight": 0.1,
                        "click_weight": 1.0,
                    },
                    "long_vector": None,
                },
                "kind": "delta",
                "parent": {"path": "../0", "fingerprint": "4c6c7fff3e5e6df4"},
                "version": 2,
                "fingerprint": "da2f5645496c834a",
                "rows": 1,
                "candidates": 1,
                "created": 2,
                "evicted": 1,
                "evicted_unseen": 0,
                "evicted_score": 0,
                "evicted_capacity": 0,
            }
        }
    },
    "files": {"learn/tables/ads/00000-of-00001.snap": {"bytes": 198}},
}


def test_the_record_of_a_table(tmp_path):
    table = TableConfig(
        name="ads",
        dim=2,
        initializer=Initializer(kind="constant", scale=0, center=0.5),
        admission=Admission(kind="count", threshold=2),
    )
    optimizer = RowOptimizer(
        name="adagrad", hyperparameters={"initial_accumulator": 0.25}, guards={"clip_norm": 3}
    )
    store = NativeStore(table, optimizer, seed=4)

    def save(name, parent):
        written = []

        def fill(staging):
            with staging.folder("learn/tables") as folder:
                written.append(store.write(folder / "ads", parent=parent))
            return {"tables": {"learn": {"ads": written[0].record.to_plain()}}}

        write_folder(tmp_path / name, contents={}, meta={"kind": "checkpoint"}, fill=fill)
        written[0].commit()
        return json.loads((tmp_path / name / "MANIFEST.json").read_text())

    store.pull(torch.tensor([1, 1, 5, 5, 9]), create=True)
    save("0", None)
    store.table.evict(torch.tensor([5]).numpy())
    found = save("1", "../0")
    assert found == MANIFEST
    (stored,) = stored_tables(open_folder(tmp_path / "1", kind="checkpoint"), "learn").values()
    assert stored.chain.directories == tuple(tmp_path / n / "learn/tables/ads" for n in "01")
