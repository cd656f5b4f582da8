"""Merges several steps of one worker into one push."""

# Shape suffixes: N ids, M of them with a gradient, D width of a row, P dense weights.

from collections.abc import Sequence
from typing import Literal

import numpy as np

from fleetrec.embedding.remote_lookup import RowUpdate, UniqueIds
from fleetrec.server.parameter_client import StepUpdate

Rule = Literal["sum", "mean"]


def merge_steps(steps: Sequence[StepUpdate], rule: Rule) -> StepUpdate:
    """Merge steps in order; the table sums the gradients of an id that occurs twice."""
    if len(steps) == 1:
        return steps[0]
    scale = np.float32(1.0 if rule == "sum" else 1.0 / len(steps))
    names = list(dict.fromkeys(name for step in steps for name in step.tables))
    grads_P = np.add.reduce([step.grads_P for step in steps]) * scale
    return StepUpdate(
        progress=steps[-1].progress,
        num_samples=sum(step.num_samples for step in steps),
        event_time=max(step.event_time for step in steps),
        grads_P=grads_P,
        tables={
            name: _merge_rows([step.tables[name] for step in steps if name in step.tables], scale)
            for name in names
        },
    )


def _merge_rows(rows: Sequence[RowUpdate], scale: np.float32) -> RowUpdate:
    """Concatenate updates: first all ids with a gradient, then all others."""
    with_grad = [row.ids.at(np.arange(len(row.grads_MD))) for row in rows]
    without_grad = [row.ids.at(np.arange(len(row.grads_MD), len(row.ids.ids_N))) for row in rows]
    return RowUpdate(
        ids=_concatenate([*with_grad, *without_grad]),
        grads_MD=np.concatenate([row.grads_MD for row in rows]) * scale,
    )


def _concatenate(parts: Sequence[UniqueIds]) -> UniqueIds:
    return UniqueIds(
        ids_N=np.concatenate([part.ids_N for part in parts]),
        shows_N=np.concatenate([part.shows_N for part in parts]),
        clicks_N=np.concatenate([part.clicks_N for part in parts]),
    )
