"""Several steps in one push."""

import dataclasses

import numpy as np
import pytest

from fleetrec.server.merge import merge_steps
from unit.server.serving import make_rows, make_step


def make_steps():
    first = make_step({"t": make_rows([1, 2], [[2, 2]])}, grads_P=np.full(5, 4.0, np.float32))
    second = make_step({"t": make_rows([1, 3], [[6, 6]])}, grads_P=np.full(5, 8.0, np.float32))
    return [
        dataclasses.replace(first, progress=b"first", event_time=9),
        dataclasses.replace(second, progress=b"second", num_samples=2),
    ]


def test_one_step_stays_as_it_is():
    (step, _) = make_steps()
    assert merge_steps([step], "mean") is step


@pytest.mark.parametrize(("rule", "dense", "rows"), [("sum", 12.0, [2, 6]), ("mean", 6.0, [1, 3])])
def test_gradients_are_summed_or_averaged(rule, dense, rows):
    merged = merge_steps(make_steps(), rule)
    assert merged.grads_P.tolist() == [dense] * 5
    assert merged.tables["t"].grads_MD[:, 0].tolist() == rows


def test_ids_with_a_gradient_come_first():
    merged = merge_steps(make_steps(), "sum").tables["t"]
    assert merged.ids.ids_N.tolist() == [1, 1, 2, 3]
    assert len(merged.grads_MD) == 2
    assert merged.ids.shows_N.tolist() == [1, 1, 1, 1]


def test_progress_is_that_of_the_last_step():
    merged = merge_steps(make_steps(), "sum")
    assert (merged.progress, merged.num_samples, merged.event_time) == (b"second", 3, 9)


def test_a_table_may_be_missing_in_some_steps():
    first, second = make_steps()
    other = dataclasses.replace(second, tables={"u": make_rows([4], [[1, 1, 1]])})
    merged = merge_steps([first, other], "sum")
    assert merged.tables["t"].ids.ids_N.tolist() == [1, 2]
    assert merged.tables["u"].ids.ids_N.tolist() == [4]
