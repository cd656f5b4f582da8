"""Train a pipeline model in this process, and compare its AUC with the best one."""

import csv

import numpy as np

from fleetrec.config.pipeline_dialect.decode import Changes, decode_pipeline
from fleetrec.data.loader import Loader
from making_models import MODELS, labels_of, metrics_of
from making_phases import evaluate, phase_of, train
from making_pipelines import write_pipeline

OUTPUTS = ("probs", "probs_ctr", "probs_light")


def auc(scores, labels):
    """Return the share of pairs in the right order; ties count half."""
    order = np.argsort(scores, kind="stable")
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    for value in np.unique(scores):
        ranks[scores == value] = ranks[scores == value].mean()
    positive = labels == 1
    num, rest = positive.sum(), (~positive).sum()
    return (ranks[positive].sum() - num * (num + 1) / 2) / (num * rest)


def best_auc(paths):
    """Return the AUC of the planted tastes."""
    with paths["eval"].open() as stream:
        rows = [(float(row[0]), float(row[2])) for row in csv.reader(stream)]
    labels, tastes = np.array(rows).T
    return auc(tastes, labels)


def learned_auc(name, folder, *, paths, classes, seed=0, epochs=4):
    """Return the AUC of a model class on the evaluation data after some epochs."""
    path = write_pipeline(
        folder,
        MODELS[name],
        paths=paths,
        labels=labels_of(name),
        eval_config=metrics_of(name),
    )
    decoded = decode_pipeline(path, classes=classes, changes=Changes(), kind="train", seed=seed)
    (run,) = decoded.job.runs
    phase = phase_of(run.phases[0], run)
    step = 0
    for epoch in range(epochs):
        with phase.loader.epoch(epoch) as batches:
            for batch in batches:
                step += 1
                train(phase, batch, step=step)
    in_order = {"shuffle_rows": 0, "shuffle_files": False, "data_path": str(paths["eval"])}
    test_data = phase.options.dataset.model_copy(update=in_order)
    return _auc_of(phase, test_data)


def _auc_of(phase, test_data):
    scores, labels = [], []
    with Loader(test_data, seed=0).epoch(0) as batches:
        for batch in batches:
            outputs = evaluate(phase, batch)
            probs = next(outputs[key] for key in OUTPUTS if key in outputs)
            scores.append((probs[:, 1] if probs.dim() == 2 else probs).numpy())
            labels.append(batch.label("label").numpy())
    return auc(np.concatenate(scores), np.concatenate(labels))
