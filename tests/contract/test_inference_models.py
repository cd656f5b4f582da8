"""Every model predicts the same after its export, without torch and without its code.

So does onnxruntime alone, with the file that has the tables in it.

All models of the zoo, every phase that trains one, and all model classes of pipelines are found, so
a new one is covered without touching this file. The data is the test data of the model's config.
"""

import csv
import gzip
import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pyarrow as pa
import pytest
from torch import Tensor

from contract import torch_free
from fleetrec.cli.job import load_job
from fleetrec.config.job import DatasetOptions
from fleetrec.config.pipeline_dialect.decode import Changes, decode_pipeline
from fleetrec.config.yaml_dialect.locate import ZOO, zoo_names
from fleetrec.core.batch import Batch
from fleetrec.data.loader import Loader
from fleetrec.data.user_code import has_own, load_reader
from fleetrec.export.folding import FOLDED, FoldTables
from fleetrec.export.inference import plan_inference
from fleetrec.export.item_files import ItemWriter
from fleetrec.models.base import predictions
from fleetrec.models.pipeline_classes import pipeline_classes
from fleetrec.train.phase import Phase
from making_models import MODELS, labels_of, metrics_of
from making_phases import evaluate, phase_of, train
from making_pipelines import write_data, write_pipeline

NUM_BATCHES = 3  # that are trained on
TOLERANCE = 1e-5
TOPK = 7


class TorchFree:
    """A process that predicts without torch."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-u", torch_free.__file__, str(ZOO)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def predict(self, model: Path, inputs_of: dict) -> dict[str, np.ndarray]:
        """Return ``ids/<output>`` and ``raw/<output>`` of all samples."""
        inputs, answers = model.with_suffix(".inputs.json"), model.with_suffix(".npz")
        inputs.write_text(json.dumps(inputs_of))
        request = {"model": str(model), "inputs": str(inputs), "answers": str(answers)}
        request["topk"] = TOPK
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        said = self._process.stdout.readline().strip()
        assert said == "done", said
        with np.load(answers) as arrays:
            return dict(arrays)

    def close(self) -> None:
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


@pytest.fixture(scope="session")
def torch_free_process():
    process = TorchFree()
    yield process
    process.close()


@pytest.fixture(scope="module")
def pipeline_data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"), num_train=256, num_eval=256)


def trained_phases() -> list[tuple[str, int, int]]:
    """Return model, run and phase of everything in the zoo that is trained."""
    found = {}
    for name in zoo_names():
        for number, run in enumerate(load_job(name, overrides=()).runs):
            for place, phase in enumerate(run.phases if run.kind == "train" else ()):
                found.setdefault((name, phase.model_path), (name, number, place))
    return list(found.values())


def is_quick(name: str) -> bool:
    """Return whether make test exports a model; make test-slow exports all, of which most rank."""
    return not name.startswith("rank/") or name in QUICK


QUICK = {"rank/dnn", "rank/deepfm", "rank/fm", "rank/dcn_v2", "rank/din", "rank/wide_deep"}


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(place, marks=() if is_quick(place[0]) else pytest.mark.slow)
        for place in trained_phases()
    ],
    ids=lambda place: "-".join(map(str, place)),
)
def test_a_model_of_the_zoo(place, torch_free_process, tmp_path):
    name, number, index = place
    job = load_job(name, overrides=())
    run = job.runs[number]
    phase = phase_of(run.phases[index], run)
    infer = next(run for run in job.runs if run.kind == "infer")
    check(phase, infer.phases[0].dataset, torch_free_process, tmp_path / "model")


@pytest.mark.parametrize("name", sorted(pipeline_classes()))
def test_a_model_class_of_pipelines(name, pipeline_data, torch_free_process, tmp_path):
    path = write_pipeline(
        tmp_path,
        MODELS[name],
        paths=pipeline_data,
        labels=labels_of(name),
        eval_config=metrics_of(name),
    )
    decoded = decode_pipeline(path, classes=pipeline_classes(), changes=Changes(), kind="train")
    (run,) = decoded.job.runs
    phase = phase_of(run.phases[0], run)
    in_order = {"shuffle_rows": 0, "shuffle_files": False}
    test_data = phase.options.dataset.model_copy(
        update={"data_path": str(pipeline_data["eval"]), **in_order}
    )
    check(phase, test_data, torch_free_process, tmp_path / "model")


def check(phase: Phase, test_data: DatasetOptions, process: TorchFree, model: Path) -> None:
    """Compare all outputs of the exported model with those of the trained one."""
    rules = phase.loader.input_rules
    planned = plan_inference(
        phase.model,
        phase.loader.inputs,
        feeds=(),
        fetches=(),
        rules=rules,
        fold=FoldTables(max_mib=100),
    )
    planned.convert()
    with phase.loader.epoch(0) as found:
        for step, batch in enumerate(itertools.islice(found, NUM_BATCHES)):
            train(phase, batch, step=step + 1)
    columns = columns_of(test_data, labels={task.label for task in phase.model.tasks})
    items = ItemWriter(rows_of=lambda tower, _: samples_as_items(tower, columns), id_column="row")
    planned.write(model, phase.state.export_rows(), add_items=items.add if planned.towers else None)
    with Loader(test_data, seed=0).epoch(0) as found:
        batches = list(found)
    expected: dict[str, list[np.ndarray]] = {}
    for batch in batches:
        for name, value in predictions(evaluate(phase, batch)).items():
            if name in planned.fetches:  # others depend on what only training has
                expected.setdefault(name, []).append(value.numpy())
    feeds = {name: [one for b in batches for one in feed_of(b, name)] for name in planned.feeds}
    weighted = [name for name in planned.feeds if has_weights(batches[0], name)]
    weights = {name: [one for b in batches for one in weights_of(b, name)] for name in weighted}
    found = process.predict(model, {"feeds": feeds, "weights": weights, "columns": columns})
    values = {name: np.concatenate(parts) for name, parts in expected.items()}
    if planned.towers:
        check_towers(planned, values, found)
    found |= compute_folded(model / FOLDED, feeds, weights)
    kinds = ("ids", "raw", "folded")
    assert found.keys() == {f"{kind}/{name}" for kind in kinds for name in expected}
    for name, value in values.items():
        assert np.ptp(value) > 0, f"{name} is the same for all samples"
        for kind in kinds:
            np.testing.assert_allclose(found[f"{kind}/{name}"], value, atol=TOLERANCE, rtol=0)


def compute_folded(graph: Path, feeds: dict, weights: dict) -> dict[str, np.ndarray]:
    """Return ``folded/<output>`` of onnxruntime alone."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # about weights, which have a default
    session = onnxruntime.InferenceSession(
        graph.read_bytes(), options, providers=["CPUExecutionProvider"]
    )
    given: dict[str, np.ndarray] = {}
    for name, its in feeds.items():
        if isinstance(its[0], list) and name + ".lengths" in names_of(session.get_inputs()):
            given[name] = padded(its, np.int64)
            given[name + ".lengths"] = np.array([len(ids) for ids in its])
        else:
            given[name] = np.array(its, np.float32)
    known = names_of(session.get_overridable_initializers())  # sequences have no weights
    given |= {
        f"{name}.weights": padded(its, np.float32)
        for name, its in weights.items()
        if f"{name}.weights" in known
    }
    outputs = names_of(session.get_outputs())
    found = session.run(outputs, given)
    return {f"folded/{name}": value for name, value in zip(outputs, found, strict=True)}


def names_of(nodes: list) -> list[str]:
    return [node.name for node in nodes]


def padded(lists: list, dtype: type) -> np.ndarray:
    table = np.zeros((len(lists), max(map(len, lists))), dtype)
    for row, one in zip(table, lists, strict=True):
        row[: len(one)] = one
    return table


def samples_as_items(tower, columns: dict[str, list]):
    """Yield every sample as an item, whose id is the number of the row."""
    values = tower.rules.transform(columns)
    yield values, pa.array(range(values.num_rows))


def check_towers(planned, values: dict, found: dict) -> None:
    """Compare towers with the whole model, and recalled items with all; takes both out."""
    for tower in planned.towers:
        (output,) = tower.fetches
        assert 0 < len(tower.feeds) < len(planned.feeds)
        for kind in ("ids", "raw"):
            vectors = found.pop(f"{tower.name}.{kind}/{output}")
            np.testing.assert_allclose(vectors, values[output], atol=TOLERANCE, rtol=0)
    outputs = {tower.name: tower.fetches[0] for tower in planned.towers}
    users, items = values[outputs["user"]], values[outputs["item"]]
    everything = (users.reshape(len(users), -1, users.shape[-1]) @ items.T).max(axis=1)
    similarity = np.diagonal(everything)
    scores = [one.reshape(-1) for one in values.values() if one.size == len(users)]
    assert any(rises_with(similarity, one) for one in scores)
    ids, recalled = found.pop("recalled/ids"), found.pop("recalled/scores")
    best = -np.sort(-everything, axis=1)[:, :TOPK]
    np.testing.assert_allclose(recalled, best, atol=TOLERANCE, rtol=0)
    there = np.take_along_axis(everything, ids, axis=1)
    np.testing.assert_allclose(there, recalled, atol=TOLERANCE, rtol=0)


def rises_with(similarity: np.ndarray, score: np.ndarray) -> bool:
    """Return whether a score is the similarity times a positive number, plus a number."""
    ones = np.ones_like(similarity)
    (slope, shift), *_ = np.linalg.lstsq(np.stack([similarity, ones], 1), score, rcond=None)
    return slope > 0 and np.allclose(slope * similarity + shift, score, atol=TOLERANCE, rtol=0)


def feed_of(batch: Batch, name: str) -> list:
    if name in batch.dense:
        return batch.dense[name].tolist()
    return lists_of(batch.ids[name].values, batch.ids[name].offsets)


def has_weights(batch: Batch, name: str) -> bool:
    return name not in batch.dense and batch.ids[name].weights is not None


def weights_of(batch: Batch, name: str) -> list:
    return lists_of(batch.ids[name].weights, batch.ids[name].offsets)


def lists_of(values: Tensor, offsets: Tensor) -> list:
    flat = values.tolist()
    return [flat[a:b] for a, b in itertools.pairwise(offsets.tolist())]


def columns_of(data: DatasetOptions, *, labels: set[str]) -> dict[str, list]:
    """Read raw columns from the files by means of the tests, not by the readers of training."""
    path = Path(data.data_path)
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    lines = [line for file in files for line in text_of(file).splitlines()]
    if data.text_table is not None and data.text_table.columns:
        cells = csv.reader(lines, delimiter=data.text_table.separator)
        columns = zip(*cells, strict=True)
        table = dict(zip(data.text_table.columns, map(list, columns), strict=True))
    elif data.reader is not None:
        reader = load_reader(data.reader)
        samples = [dict(sample) for sample in samples_of(reader, files, lines)]
        table = {name: [sample[name] for sample in samples] for name in samples[0]}
    else:
        dense = {slot.name for slot in data.dense}
        table = slots_of(lines, [*data.sparse, *dense], dense)
    return {name: column for name, column in table.items() if name not in labels}


def samples_of(reader, files: list[Path], lines: list[str]) -> list:
    """Return what a reader makes of lines, or of files."""
    paths = [str(file) for file in files]
    if has_own(reader, "generate_batch_from_trainfiles"):
        return [one for batch in reader.generate_batch_from_trainfiles(paths)() for one in batch]
    if has_own(reader, "read"):
        return [one for path in paths for one in reader.read(path)]
    return [one for line in lines for one in reader.generate_sample(line)()]


def slots_of(lines: list[str], names: list[str], dense: set[str]) -> dict[str, list]:
    """Return lists of values of slot text; None in lines that lack a slot."""
    table: dict[str, list] = {name: [None] * len(lines) for name in names}
    for number, line in enumerate(lines):
        for token in line.split():
            name, _, text = token.rpartition(":")
            if name in table:
                value = float(text) if name in dense else int(text)
                table[name][number] = [*(table[name][number] or []), value]
    return table


def text_of(path: Path) -> str:
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
