"""Figures of predicted probabilities, by hand and against slow twins."""

import math

import pytest
import torch

from fleetrec.tasks.binary_metric import NUM_BUCKETS, BinaryMetric
from reference.binary_metric import bucket_error, pair_auc

P = [0.9, 0.8, 0.3, 0.2]
Y = [1, 0, 1, 0]


def make_metric(predictions=P, labels=Y):
    metric = BinaryMetric()
    metric.update(torch.tensor(predictions), torch.tensor(labels, dtype=torch.float32))
    return metric


def make_samples(num_samples, *, seed=0):
    generator = torch.Generator().manual_seed(seed)
    predictions = torch.rand(num_samples, generator=generator)
    labels = (torch.rand(num_samples, generator=generator) < predictions).float()
    return predictions, labels


def figures(predictions, labels):
    return make_metric(predictions, labels).compute()


def test_auc_counts_pairs_in_the_right_order():
    assert make_metric().headline() == {"AUC": 0.75}  # only (0.3, 0.8) is wrong, of 4 pairs


def test_auc_is_1_when_every_positive_lies_above_every_negative():
    assert figures([0.9, 0.8, 0.1], [1, 1, 0])["AUC"] == 1.0


def test_auc_is_0_when_the_order_is_reversed():
    assert figures([0.1, 0.9], [1, 0])["AUC"] == 0.0


def test_a_tie_counts_half():
    assert figures([0.5, 0.5], [1, 0])["AUC"] == 0.5
    assert figures([0.5, 0.5, 0.2], [1, 0, 0])["AUC"] == 0.75


@pytest.mark.parametrize("labels", [[1, 1], [0, 0]])
def test_auc_of_one_class_is_undefined(labels):
    assert math.isnan(figures([0.2, 0.7], labels)["AUC"])


def test_auc_equals_the_count_of_all_pairs():
    buckets = torch.randint(0, 40, (300,), generator=torch.Generator().manual_seed(1))
    predictions = (buckets * 1000 + 0.5) / NUM_BUCKETS  # many ties, none made by rounding
    _, labels = make_samples(300)
    want = pair_auc(predictions.tolist(), labels.tolist())
    assert make_metric(predictions.tolist(), labels.tolist()).headline()["AUC"] == want


def test_probabilities_of_0_and_1_are_counted():
    assert figures([0.0, 1.0], [0, 1])["AUC"] == 1.0


def test_log_loss_by_hand():
    want = -(math.log(0.9) + math.log(0.2) + math.log(0.3) + math.log(0.8)) / 4
    assert make_metric().compute()["LOGLOSS"] == pytest.approx(want, abs=1e-6)


def test_log_loss_of_a_certain_mistake_is_finite():
    assert figures([1.0], [0])["LOGLOSS"] == pytest.approx(-math.log(1e-7), rel=1e-6)


def test_rates_by_hand():
    found = figures([0.5, 0.25, 0.25, 0.0], [1, 0, 1, 0])
    assert found["ACTUAL_CTR"] == 0.5
    assert found["PREDICTED_CTR"] == 0.25
    assert found["COPC"] == 2.0


def test_errors_by_hand():
    found = figures([0.5, 0.25, 0.75, 0.0], [1, 0, 1, 0])
    assert found["MAE"] == 0.25  # (0.5 + 0.25 + 0.25 + 0) / 4
    assert found["RMSE"] == pytest.approx(math.sqrt(0.375 / 4))


def test_copc_is_undefined_where_nothing_was_predicted():
    assert math.isnan(figures([0.0, 0.0], [1, 0])["COPC"])


def test_samples_are_counted():
    assert make_metric().compute()["SAMPLES"] == 4.0


def test_an_empty_metric_has_no_figures():
    found = BinaryMetric().compute()
    assert found.pop("SAMPLES") == 0.0
    assert all(math.isnan(value) for value in found.values())


def test_bucket_error_by_hand():
    # One bucket of 1000 shows at 0.5: certain enough; 600 clicks are 1.2 times the prediction.
    found = figures([0.5] * 1000, [1] * 600 + [0] * 400)["BUCKET_ERROR"]
    assert found == pytest.approx(0.2, abs=1e-4)


def test_bucket_error_is_undefined_while_no_group_is_certain():
    assert math.isnan(make_metric().compute()["BUCKET_ERROR"])


@pytest.mark.parametrize("num_samples", [100, 3000, 30000])
def test_bucket_error_equals_its_slow_twin(num_samples):
    predictions, labels = make_samples(num_samples)
    predictions = predictions.double() ** 2
    found = figures(predictions.tolist(), labels.tolist())["BUCKET_ERROR"]
    want = bucket_error(predictions.float().tolist(), labels.tolist())
    assert found == pytest.approx(want, nan_ok=True)


def test_batches_add_up():
    whole = make_metric()
    parts = BinaryMetric()
    for p, y in zip(P, Y, strict=True):
        parts.update(torch.tensor([p]), torch.tensor([float(y)]))
    assert parts.compute() == pytest.approx(whole.compute(), nan_ok=True)


def test_merged_halves_equal_the_whole():
    predictions, labels = make_samples(1000)
    whole, left, right = BinaryMetric(), BinaryMetric(), BinaryMetric()
    whole.update(predictions, labels)
    left.update(predictions[:300], labels[:300])
    right.update(predictions[300:], labels[300:])
    left.merge(right)
    for name in ("positives", "negatives"):
        assert torch.equal(left.counters()[name], whole.counters()[name])
    assert left.headline() == whole.headline()
    assert left.compute() == pytest.approx(whole.compute(), rel=1e-12)


def test_merging_leaves_the_other_metric_alone():
    one, other = make_metric(), make_metric()
    before = other.compute()
    one.merge(other)
    assert one.compute()["SAMPLES"] == 8.0
    assert other.compute() == pytest.approx(before, nan_ok=True)


def test_reset_forgets_everything():
    metric = make_metric()
    metric.reset()
    assert all(not counter.any() for counter in metric.counters().values())
    metric.update(torch.tensor(P), torch.tensor(Y, dtype=torch.float32))
    assert metric.compute() == pytest.approx(make_metric().compute(), nan_ok=True)


def test_counting_needs_no_gradient():
    predictions = torch.tensor(P, requires_grad=True)
    metric = BinaryMetric()
    metric.update(predictions, torch.tensor(Y, dtype=torch.float32))
    assert not any(counter.requires_grad for counter in metric.counters().values())
