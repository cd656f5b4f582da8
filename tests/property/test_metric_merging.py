"""However samples are split over batches, workers and passes, a metric comes out equal."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetrec.tasks.binary_metric import NUM_BUCKETS, BinaryMetric
from reference.binary_metric import bucket_error, pair_auc

probability = st.floats(0, 1, width=32) | st.sampled_from([0.0, 0.25, 0.5, 1.0])
sample = st.tuples(probability, st.sampled_from([0.0, 1.0]))
samples = st.lists(sample, max_size=40)
parts = st.lists(samples, max_size=6)
few = settings(max_examples=40)  # a metric has 65,536 buckets


def make_metric(batches):
    metric = BinaryMetric()
    for batch in batches:
        predictions = torch.tensor([p for p, _ in batch], dtype=torch.float32)
        metric.update(predictions, torch.tensor([y for _, y in batch], dtype=torch.float32))
    return metric


def assert_equal_figures(got, want):
    for name in ("positives", "negatives"):
        assert torch.equal(got.counters()[name], want.counters()[name])
    assert got.headline() == pytest.approx(want.headline(), rel=0, abs=0, nan_ok=True)
    assert got.compute() == pytest.approx(want.compute(), rel=1e-12, abs=1e-12, nan_ok=True)


@few
@given(parts)
def test_batches_of_any_size_equal_one_batch(batches):
    whole = [sample for batch in batches for sample in batch]
    assert_equal_figures(make_metric(batches), make_metric([whole]))


@few
@given(parts)
def test_merging_any_parts_equals_the_whole(batches):
    merged = BinaryMetric()
    for batch in batches:
        merged.merge(make_metric([batch]))
    assert_equal_figures(merged, make_metric(batches))


@few
@given(samples, samples)
def test_merging_does_not_depend_on_who_merges_whom(left, right):
    one, other = make_metric([left]), make_metric([right])
    one.merge(make_metric([right]))
    other.merge(make_metric([left]))
    assert_equal_figures(one, other)


@few
@given(samples)
def test_auc_is_that_of_all_pairs_of_rounded_predictions(batch):
    rounded = [min(int(p * NUM_BUCKETS), NUM_BUCKETS - 1) for p, _ in batch]
    want = pair_auc(rounded, [y for _, y in batch])
    assert make_metric([batch]).headline()["AUC"] == pytest.approx(want, nan_ok=True)


@few
@given(samples, st.integers(1, 300))
def test_bucket_error_is_that_of_the_slow_twin(batch, times):
    predictions, labels = [p for p, _ in batch] * times, [y for _, y in batch] * times
    want = bucket_error(predictions, labels)
    found = make_metric([batch] * times).compute()["BUCKET_ERROR"]
    assert found == pytest.approx(want, nan_ok=True)
