"""Runs a pipeline on generated data, in this process: train, evaluate, export, compare."""

import json

import numpy as np

from easyrec.generate import make_data
from fleetrec.cli.eval import EvalRequest, evaluate_checkpoint
from fleetrec.cli.export import ExportRequest, export_model
from fleetrec.cli.predict import PredictRequest, predict_data
from fleetrec.cli.train_eval import TrainEvalRequest, train_and_evaluate


def train(text, folder, *, num_train=160, num_eval=64, suffix="config", **changes):
    """Train a pipeline on data made for it; returns the model folder."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / f"pipeline.{suffix}"
    config.write_text(text)
    edits = make_data(config, folder, num_train=num_train, num_eval=num_eval) | changes
    train_and_evaluate(
        TrainEvalRequest(source=str(config), edit_config_json=json.dumps(edits)),
        continue_train=False,
    )
    return folder / "model"


def result(model):
    return json.loads((model / "eval_result.txt").read_text())


def compare_export(model, folder, *, data):
    """Evaluate, export and predict; the exported model predicts as the trained one does."""
    trained = result(model)
    evaluate_checkpoint(EvalRequest(source=None, model_dir=str(model)))
    assert result(model) == trained
    exported = folder / "exported"
    source = str(model / "pipeline.config")
    export_model(
        ExportRequest(checkpoint=None, source=source, model_dir=str(model), out=str(exported))
    )
    first = _predict(str(model), folder / "trained.jsonl", data=data)
    second = _predict(str(exported), folder / "exported.jsonl", data=data)
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_allclose(first[name], second[name], rtol=1e-5, atol=1e-5)


def _predict(model, out, *, data):
    """Return the outputs of all rows by name."""
    predict_data(PredictRequest(model=model, data=str(data), out=str(out)))
    rows = [
        json.loads(line)
        for part in sorted(out.glob("part-*.jsonl"))
        for line in part.read_text().splitlines()
    ]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}
