"""Click and conversion are learned together, and conversions are measured on clicks."""

import pytest
import torch

from fleetrec.config.groups import MetricOptions
from fleetrec.core.batch import Batch
from fleetrec.core.cursor import Cursor
from fleetrec.core.jagged import KeyedJagged
from fleetrec.tasks.conversion import ClickedTask, ConversionTask
from fleetrec.tasks.scored import ScoredTask

CLICKS = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
BUYS = torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0, 0.0])  # the last but one cannot be: no click
CLICK_LOGITS = torch.tensor([2.0, 0.5, 1.0, -1.0, -2.0, 30.0])
BUY_LOGITS = torch.tensor([1.0, 2.0, 0.5, -3.0, 0.0, 30.0])


def batch():
    return Batch(
        ids=KeyedJagged(
            names=("group:user",),
            values_N=torch.tensor([1, 1, 2, 2, 3, 3]),
            offsets=torch.arange(7),
            num_samples=6,
        ),
        dense={"click": CLICKS.unsqueeze(1), "buy": BUYS.unsqueeze(1)},
        cursor=Cursor(),
    )


def outputs():
    click, buy = torch.sigmoid(CLICK_LOGITS), torch.sigmoid(BUY_LOGITS)
    return {
        "logits_ctr": CLICK_LOGITS,
        "probs_ctr": click,
        "logits_cvr": BUY_LOGITS,
        "probs_cvr": buy,
        "probs_ctcvr": click * buy,
    }


def task(kind, *metrics):
    return kind(
        click=ScoredTask(label="click", name="ctr"),
        conversion=ScoredTask(label="buy", name="cvr", weight=2.0),
        name="both",
        metrics=[MetricOptions(name=name, feature="group:user") for name in metrics],
    )


def test_the_loss_is_that_of_the_product_of_probabilities():
    both = torch.sigmoid(CLICK_LOGITS.double()) * torch.sigmoid(BUY_LOGITS.double())
    labels = (CLICKS * BUYS).double()
    expected = torch.nn.functional.binary_cross_entropy(both.clamp(max=1 - 1e-7), labels)
    found = task(ConversionTask).loss(outputs(), batch())
    assert float(found) == pytest.approx(2 * float(expected), rel=1e-2)
    assert torch.isfinite(found)


def test_metrics_of_the_product_are_over_all_samples():
    counted = task(ConversionTask, "auc")
    metric = counted.new_metric()
    named = {**outputs(), "probs_both": outputs()["probs_ctcvr"]}
    counted.count(metric, named, batch())
    product = outputs()["probs_ctcvr"]
    labels = CLICKS * BUYS
    pairs = [(p, n) for p in product[labels == 1] for n in product[labels == 0]]
    auc = sum(float(p > n) + 0.5 * float(p == n) for p, n in pairs) / len(pairs)
    assert metric.compute()["auc"] == pytest.approx(auc, abs=1e-3)


def test_metrics_of_the_conversion_are_over_clicked_samples():
    counted = task(ClickedTask, "auc", "gauc")
    metric = counted.new_metric()
    counted.count(metric, outputs(), batch())
    # Clicked: scores 1.0 2.0 0.5 -3.0 of labels 1 0 1 0; by user (1 0) and (1 0).
    values = metric.compute()
    assert values["auc"] == pytest.approx(0.5, abs=1e-3)
    assert values["gauc"] == pytest.approx(0.5)
    assert float(counted.loss(outputs(), batch())) == 0


def test_training_keeps_no_samples():
    for kind in (ConversionTask, ClickedTask):
        metric = task(kind, "auc", "gauc").in_training().new_metric()
        assert len(metric.metrics) == 2  # the loss and auc
