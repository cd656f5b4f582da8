"""Tables in the ONNX graph: what onnxruntime alone computes is what Predictor does."""

import logging

import numpy as np
import onnxruntime
import pytest
import torch

from fleetrec.core.batch import Inputs
from fleetrec.core.errors import ConfigError
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import TableConfig
from fleetrec.export.folding import FOLDED, FoldTables
from fleetrec.export.inference import plan_inference
from fleetrec.export.predictor import Predictor
from fleetrec.models.base import Model
from fleetrec.tasks.binary import BinaryTask

DIM = 3
FOLD = FoldTables(max_mib=1)
LISTS = {
    "searched": [[-1, 7], [2**63 - 1, -(2**63), 5], []],
    "direct": [[0], [3, 4, 99], [-5]],
    "hashed": [[3, 2**40 + 1], [-7], [12]],
    "seen": [[1, 2, 3, 4], [], [5]],
}
IDS = {
    "searched": [-(2**63), -1, 7, 10**12, 2**63 - 1],
    "direct": [0, 2, 3, 4],
    "hashed": list(range(11)),
    "seen": [1, 2, 4, 5],
}


class Everything(Model):
    """Returns what it looks up: all combiners, and sequences of bounded and any length."""

    def __init__(self):
        super().__init__(tasks=[BinaryTask(label="click")])
        tables = [TableConfig(name=name, dim=DIM) for name in ("searched", "seen")]
        tables.append(TableConfig(name="direct", dim=DIM, num_rows=5))
        tables.append(TableConfig(name="hashed", dim=DIM, num_rows=11, out_of_range="hash"))
        features = [
            EmbeddedFeature(feature=one, table=one, combiner=combiner, name=f"{one}.{combiner}")
            for one in ("searched", "direct", "hashed")
            for combiner in ("sum", "mean", "sqrtn")
        ]
        features += [
            EmbeddedFeature(
                feature="seen", table="seen", combiner="none", max_length=longest, name=name
            )
            for name, longest in (("last", 3), ("one", 1), ("all", None))
        ]
        self.embeddings = EmbeddingCollection(features=features, tables=tables)
        self.scale = torch.nn.Parameter(torch.ones(1))

    def forward(self, batch):
        found = self.embeddings(batch)
        pooled_BE = found.cat(list(self.embeddings.layout.pooled)) * self.scale
        sequences = {name: batch.embedded[f"sequence_{name}"] for name in ("last", "one", "all")}
        lengths = {f"length_{n}": batch.embedded[f"lengths_{n}"] * 1 for n in sequences}
        wide = {name: one * self.scale for name, one in sequences.items()}
        logit_B = pooled_BE.sum(1) + batch.dense["price"].sum(1)
        return {"logit": logit_B, "pooled": pooled_BE, **wide, **lengths}


def write(folder, *, row_type="float32", fold=FOLD):
    inputs = Inputs(sparse=tuple(LISTS), dense={"price": (2,)})
    planned = plan_inference(
        Everything(), inputs, feeds=(), fetches=(), row_type=row_type, fold=fold
    )
    rng = np.random.default_rng(0)
    rows = {
        name: {
            "ids": torch.tensor(ids),
            "rows": torch.from_numpy(rng.normal(size=(len(ids), DIM)).astype(np.float32)),
        }
        for name, ids in IDS.items()
    }
    planned.write(folder, rows)
    return folder


def padded(lists, dtype=np.int64):
    """Return lists with other values behind them, which must not count."""
    table = np.full((len(lists), max(map(len, lists)) + 1), 2, dtype)
    for row, one in zip(table, lists, strict=True):
        row[: len(one)] = one
    return table


def feeds_of(lists):
    feeds = {name: padded(some) for name, some in lists.items()}
    return feeds | {f"{n}.lengths": np.array([len(one) for one in x]) for n, x in lists.items()}


def open_folded(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # about weights, which have a default
    return onnxruntime.InferenceSession(
        (model / FOLDED).read_bytes(), options, providers=["CPUExecutionProvider"]
    )


@pytest.mark.parametrize("row_type", ["float32", "int8"])
def test_onnxruntime_alone_computes_what_the_predictor_does(tmp_path, row_type):
    model = write(tmp_path / "model", row_type=row_type)
    predictor, session = Predictor(model), open_folded(model)
    price = np.arange(6, dtype=np.float32).reshape(3, 2)
    weights = {
        name: [[0.5 - place for place in range(len(one))] for one in LISTS[name]]
        for name in ("searched", "hashed")
    }
    for given in ({}, weights):
        feeds = {"price": price, **feeds_of(LISTS)}
        feeds |= {f"{name}.weights": padded(one, np.float32) for name, one in given.items()}
        expected = predictor.predict({"price": price, **LISTS}, weights=given)
        found = session.run(predictor.fetches, feeds)
        for name, value in zip(predictor.fetches, found, strict=True):
            np.testing.assert_allclose(value, expected[name], atol=1e-6, rtol=0, err_msg=name)


def test_any_number_of_samples_and_ids_is_computed(tmp_path):
    model = write(tmp_path / "model")
    predictor, session = Predictor(model), open_folded(model)
    for lists in ([[]], [[], []], [[4] * 9]):
        price = np.zeros((len(lists), 2), np.float32)
        ids = dict.fromkeys(LISTS, lists)
        expected = predictor.predict({**ids, "price": price})
        found = session.run(predictor.fetches, {"price": price, **feeds_of(ids)})
        for name, value in zip(predictor.fetches, found, strict=True):
            np.testing.assert_allclose(value, expected[name], atol=1e-6, rtol=0, err_msg=name)


def test_inputs_are_the_feeds_their_lengths_and_weights_that_may_be_left_out(tmp_path):
    session = open_folded(write(tmp_path / "model"))
    ids = {name + suffix for name in LISTS for suffix in ("", ".lengths")}
    assert {node.name for node in session.get_inputs()} == {"price", *ids}
    weights = {node.name for node in session.get_overridable_initializers()}
    assert weights == {"searched.weights", "direct.weights", "hashed.weights"}


def test_larger_tables_are_refused_with_their_sizes(tmp_path):
    with pytest.raises(ConfigError, match=r"the limit is 0 MiB \(hashed: 11 rows, 0.0 MiB, "):
        write(tmp_path / "model", fold=FoldTables(max_mib=0))
    assert not list(tmp_path.iterdir())


def test_a_run_goes_on_without_the_file_if_its_tables_have_grown(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        model = write(tmp_path / "model", fold=FoldTables(max_mib=0, is_required=False))
    assert not (model / FOLDED).exists()
    assert "folded.onnx is left out: " in caplog.text
    assert Predictor(model).num_rows == sum(map(len, IDS.values()))
