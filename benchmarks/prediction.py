"""``fleetrec predict`` beside the evaluation loop of training, and rows of int8 beside float32.

Both read the same slot text and compute the same model; the files that are written count as well.
"""

import functools
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet

from benchmarks.criteo_like import LABEL
from benchmarks.figure import Figure, ratios
from benchmarks.job import dataset, dnn_phase, train_part
from fleetrec.config.rules import RowType
from fleetrec.data.files import list_files
from fleetrec.data.loader import Loader
from fleetrec.export.inference import plan_inference
from fleetrec.export.prediction import predict_rows
from fleetrec.export.prediction_files import PredictionWriter
from fleetrec.export.predictor import Predictor
from fleetrec.nn.denormals import flushed_denormals
from fleetrec.train.phase import Phase
from fleetrec.train.prediction import in_file_order, job_rows

TARGET = 0.8
MAX_AUC_CHANGE = 0.001
BATCH_SIZE = 1024
HIDDEN = (400, 400, 400)


def measure(
    parts: Sequence[Path], *, num_rounds: int, hidden: Sequence[int] = HIDDEN
) -> list[Figure]:
    """Train on one part, then evaluate and predict others, in turns."""
    phase = dnn_phase(parts[0].parent, batch_size=BATCH_SIZE, hidden=hidden)
    train_part(phase, parts[0])
    with tempfile.TemporaryDirectory() as folder:
        models = {kind: _written(phase, Path(folder) / kind, kind) for kind in ("float32", "int8")}
        speeds: dict[str, list[float]] = {"evaluate": [], "predict": []}
        for number, part in enumerate(parts[1 : num_rounds + 1]):
            out = Path(folder) / f"predicted-{number}"
            speeds["evaluate"].append(_rows_per_s(functools.partial(_evaluate, phase, part)))
            predict = functools.partial(_predict, models["float32"], part, out)
            speeds["predict"].append(_rows_per_s(predict))
        aucs = {}
        for kind, model in models.items():
            out = Path(folder) / f"all-{kind}"
            _predict(model, parts[1], out)
            aucs[kind] = _auc(_predictions(out), _labels(parts[1]))
    change = abs(aucs["int8"] - aucs["float32"])
    return [
        Figure(name="prediction: evaluation loop", unit="rows/s", values=speeds["evaluate"]),
        Figure(
            name="prediction: fleetrec predict",
            unit="rows/s",
            values=speeds["predict"],
            ratios=ratios(speeds["predict"], speeds["evaluate"]),
            target=TARGET,
        ),
        Figure(
            name=f"prediction: AUC of int8 rows; {MAX_AUC_CHANGE} over its change",
            unit="AUC",
            values=[aucs["int8"]],
            ratios=[MAX_AUC_CHANGE / max(change, 1e-9)],
            target=1.0,
        ),
    ]


def _written(phase: Phase, folder: Path, row_type: RowType) -> Path:
    model = plan_inference(
        phase.model, phase.loader.inputs, feeds=(), fetches=("predict",), row_type=row_type
    )
    model.write(folder, phase.state.export_rows())
    return folder


def _rows_per_s(work: Callable[[], int]) -> float:
    begin = time.perf_counter()
    return work() / (time.perf_counter() - begin)


def _evaluate(phase: Phase, part: Path) -> int:
    """Compute the metrics of a file, as the evaluation of a run does."""
    loader = Loader(dataset(part, batch_size=BATCH_SIZE), seed=0)
    num_rows = 0
    with flushed_denormals(), phase.stepper.evaluating(), loader.epoch(0) as batches:
        for batch in batches:
            result = phase.stepper.evaluate(batch)
            phase.metrics.count(result.outputs, batch, result.loss)
            num_rows += batch.num_samples
    return num_rows


def _predict(model: Path, part: Path, out: Path) -> int:
    """Predict a file as the command does; the model is loaded, too."""
    predictor = Predictor(model)
    options = in_file_order(dataset(part, batch_size=BATCH_SIZE), str(part), batch_size=None)
    rows = job_rows(
        options, list(list_files(str(part))), needed=list(predictor.feeds), keep=(), skip_rows=0
    )
    writer = PredictionWriter(str(out), format="parquet", request={"part": part.name})
    predict_rows(rows, lambda values: predictor.predict_values(values, ["predict"]), writer)
    return writer.num_rows


def _predictions(out: Path) -> npt.NDArray[Any]:
    parts = sorted(out.glob("*.parquet"))
    table = pyarrow.parquet.read_table(parts, columns=["predict"])
    found: npt.NDArray[Any] = table["predict"].to_numpy()
    return found


def _labels(part: Path) -> npt.NDArray[Any]:
    mark = f"{LABEL}:".encode()
    with part.open("rb") as lines:
        return np.array([int(line.split(mark, 1)[1].split(None, 1)[0]) for line in lines])


def _auc(scores: npt.NDArray[Any], labels: npt.NDArray[Any]) -> float:
    """Return the share of pairs in the right order; ties count half."""
    values, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    positives = labels == 1
    num_positive, num_negative = positives.sum(), (~positives).sum()
    total = ranks[inverse[positives]].sum() - num_positive * (num_positive + 1) / 2
    return float(total / (num_positive * num_negative)) if len(values) else 0.0
