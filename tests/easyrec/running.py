"""Runs a pipeline on generated data, in this process: train, evaluate, export, compare."""

from fleetrec.config.pipeline_dialect.edit import Edit


def to_edits(values):
    return [Edit(path=path, value=value, origin=path) for path, value in values.items()]
