"""Warnings about slots that do not occur as declared."""

import numpy as np
import pytest

from fleetrec.config.job import DatasetOptions, DenseSlot
from fleetrec.data.block import SlotCounts
from fleetrec.data.slot_report import FIRST_REPORT_SAMPLES, MAX_UNDECLARED, SlotReport


@pytest.fixture
def report():
    """Of the sparse slots click and a, and the dense slot price."""
    return SlotReport(
        DatasetOptions(
            name="data",
            data_path="data",
            batch_size=4,
            sparse=("click", "a"),
            dense=(DenseSlot(name="price", shape=(1,)),),
        )
    )


def counts(seen, *, num_samples=10, **more):
    return SlotCounts(num_samples=num_samples, seen=np.array(seen), **more)


def test_slots_that_all_samples_have_are_no_news(report):
    report.add(counts([10, 10, 10]))
    assert report.take_warnings(["click"]) == []
    assert report.coverage("a") == 1.0


def test_a_declared_slot_that_no_sample_has_is_named_once(report):
    report.add(counts([10, 0, 10]))
    (warning,) = report.take_warnings()
    assert warning.startswith("declared slots that none of 10 samples has")
    assert warning.endswith(": a")
    report.add(counts([10, 0, 10]))
    assert report.take_warnings() == []


def test_undeclared_slots_are_listed_with_the_most_frequent_first(report):
    report.add(counts([10, 10, 10], undeclared={"b": 2, "c": 9}))
    (warning,) = report.take_warnings()
    assert warning.endswith("c (9 values), b (2 values)")


def test_many_undeclared_slots_fill_neither_the_line_nor_the_memory(report):
    many = {str(number): 1 for number in range(MAX_UNDECLARED + 50)}
    report.add(counts([10, 10, 10], undeclared=many))
    (warning,) = report.take_warnings()
    assert warning.endswith(f"and {MAX_UNDECLARED - 20} more")


def test_a_label_that_some_samples_lack_is_counted(report):
    report.add(counts([7, 5, 10]))
    (warning,) = report.take_warnings(["click"])
    assert warning.startswith("label click is missing in 3 of 10 samples")
    assert report.coverage("a") == 0.5


def test_empty_lines_are_counted(report):
    report.add(counts([10, 10, 10], num_empty=4))
    assert report.take_warnings() == ["4 empty lines were read as samples of padding"]


def test_a_first_report_is_due_once(report):
    assert not report.is_due()
    report.add(counts([1, 1, 1], num_samples=FIRST_REPORT_SAMPLES))
    assert report.is_due()
    assert not report.is_due()


def test_no_samples_give_no_warning(report):
    assert report.take_warnings(["click"]) == []
    assert report.coverage("a") == 0.0
