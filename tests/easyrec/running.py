"""Runs a pipeline on generated data, in this process: train, evaluate, export, compare."""

import json

import numpy as np

from easyrec.generate import make_data
from fleetrec.cli.eval import EvalRequest, evaluate_checkpoint
from fleetrec.cli.export import ExportRequest, export_model
from fleetrec.cli.predict import PredictRequest, predict_data
from fleetrec.cli.train_eval import TrainEvalRequest, train_and_evaluate


def train(text, folder, *, num_train=160, num_eval=64, **changes):
    """Train a pipeline on data made for it; returns the model folder."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "pipeline.config"
    config.write_text(text)
    edits = make_data(config, folder, num_train=num_train, num_eval=num_eval) | changes
    train_and_evaluate(
        TrainEvalRequest(source=str(config), edit_config_json=json.dumps(edits)),
        continue_train=False,
    )
    return folder / "model"


def result(model):
    return json.loads((model / "eval_result.txt").read_text())


def predictions(folder):
    """Return the outputs of all rows by name."""
    rows = [
        json.loads(line)
        for part in sorted(folder.glob("part-*.jsonl"))
        for line in part.read_text().splitlines()
    ]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def compare_export(model, folder, *, data):
    """Evaluate, export and predict; the exported model predicts as the trained one does."""
    trained = result(model)
    evaluate_checkpoint(EvalRequest(source=None, model_dir=str(model)))
    assert result(model) == trained
    exported = folder / "exported"
    export_model(
        ExportRequest(
            checkpoint=None,
            source=str(folder / "pipeline.config"),
            model_dir=str(model),
            out=str(exported),
        )
    )
    found = []
    for name, url in (("trained", str(model)), ("exported", str(exported))):
        out = folder / f"{name}.jsonl"
        predict_data(
            PredictRequest(
                model=url, data=str(data), out=str(out), source=None if name == "exported" else None
            )
        )
        found.append(predictions(out))
    first, second = found
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_allclose(first[name], second[name], rtol=1e-5, atol=1e-5)
