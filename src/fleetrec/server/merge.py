"""Several steps of one worker, sent as one."""

# Shape suffixes: N ids, M of them with a gradient, D width of a row, P numbers.

from collections.abc import Sequence
from typing import Literal

import numpy as np

from fleetrec.embedding.remote_lookup import RowUpdate, UniqueIds
from fleetrec.server.parameter_client import StepUpdate
from fleetrec.server.wire import Array

Rule = Literal["sum", "mean"]


def merge_steps(steps: Sequence[StepUpdate], rule: Rule) -> StepUpdate:
    """Put steps together, in their order; the table sums gradients of an id that occurs twice."""
    if len(steps) == 1:
        return steps[0]
    share = np.float32(1.0 if rule == "sum" else 1.0 / len(steps))
    names = list(dict.fromkeys(name for step in steps for name in step.tables))
    grads_P = np.add.reduce([step.grads_P for step in steps]) * share
    return StepUpdate(
        progress=steps[-1].progress,
        num_samples=sum(step.num_samples for step in steps),
        event_time=max(step.event_time for step in steps),
        grads_P=grads_P,
        tables={
            name: _merge_rows([step.tables[name] for step in steps if name in step.tables], share)
            for name in names
        },
    )


def _merge_rows(rows: Sequence[RowUpdate], share: np.float32) -> RowUpdate:
    """Ids with a gradient come first, so those of all steps stand before all others."""
    in_front = [row.ids.at(_places(0, len(row.grads_MD))) for row in rows]
    behind = [row.ids.at(_places(len(row.grads_MD), len(row.ids.ids_N))) for row in rows]
    return RowUpdate(
        ids=_joined([*in_front, *behind]),
        grads_MD=np.concatenate([row.grads_MD for row in rows]) * share,
    )


def _places(first: int, last: int) -> Array:
    return np.arange(first, last)


def _joined(parts: Sequence[UniqueIds]) -> UniqueIds:
    return UniqueIds(
        ids_N=np.concatenate([part.ids_N for part in parts]),
        shows_N=np.concatenate([part.shows_N for part in parts]),
        clicks_N=np.concatenate([part.clicks_N for part in parts]),
    )
