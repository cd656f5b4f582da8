"""Runs a pipeline on generated data, in this process: train, evaluate, export, compare."""

import json

import numpy as np

from fleetrec.cli.train_eval import TrainEvalRequest, train_and_evaluate
from fleetrec.config.load import JobRequest
from fleetrec.config.pipeline_dialect.edit import Edit
from fleetrec.cli.jobs import load_checked
from fleetrec.config.pipeline_dialect.decode import Changes


def to_edits(values):
    return [Edit(path=path, value=value, origin=path) for path, value in values.items()]
