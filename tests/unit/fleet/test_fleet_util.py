"""What workers tell each other."""

import numpy as np
import pytest

from fleetrec.core.errors import UnavailableError
from fleetrec.fleet.util import Util, _encode


def make_util(*others):
    """Return the util of one worker; the others have brought their values already."""
    return Util(lambda: None, lambda content: [content, *map(_encode, others)])


@pytest.mark.parametrize(("mode", "expected"), [("sum", 9), ("min", 2), ("max", 4)])
def test_numbers_are_reduced(mode, expected):
    reduced = make_util(2, 4).all_reduce(3, mode)
    assert (reduced, type(reduced)) == (expected, int)


def test_arrays_are_reduced_place_by_place():
    found = make_util(np.array([[1.0, 2.0]])).all_reduce(np.array([[0.5, 5.0]]), "max")
    assert found.tolist() == [[1.0, 5.0]]


def test_all_values_are_gathered_in_the_order_of_workers():
    assert make_util(2.5, 1).all_gather(7) == [7, 2.5, 1]


def test_shapes_that_differ_are_refused():
    with pytest.raises(ValueError, match=r"differ in shape: \[\(2,\), \(3,\)\]"):
        make_util(np.zeros(3)).all_reduce(np.zeros(2))


def test_only_numbers_travel():
    with pytest.raises(TypeError, match="expected a number or an array of numbers, got object"):
        make_util().all_gather(object())
    with pytest.raises(ValueError, match="expected sum, min or max, got 'mean'"):
        make_util().all_reduce(1, "mean")


def test_only_workers_meet():
    with pytest.raises(UnavailableError, match="comm_world 'server': only workers meet"):
        make_util().all_reduce(1, comm_world="server")
