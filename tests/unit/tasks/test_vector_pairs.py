"""Losses over pairs of vectors, and the neighbours of a vector."""

import math

import pytest
import torch

from fleetrec.config.groups import MetricOptions
from fleetrec.core.batch import Batch
from fleetrec.core.cursor import Cursor
from fleetrec.core.jagged import KeyedJagged
from fleetrec.tasks.vector_pairs import CircleLoss, MultiSimilarityLoss, VectorPairsTask

LABELS = torch.tensor([1.0, 1.0, 1.0, 0.0])
VECTORS = torch.nn.functional.normalize(
    torch.tensor([[1.0, 0.1], [1.0, 0.2], [0.2, 1.0], [0.1, 1.0]]), dim=1
)


def batch(sessions):
    return Batch(
        ids=KeyedJagged(
            names=("s",),
            values_N=torch.tensor(sessions),
            offsets=torch.arange(5),
            num_samples=4,
        ),
        dense={"label": LABELS.unsqueeze(1)},
        cursor=Cursor(),
    )


def task(loss, *, session="s"):
    metrics = [MetricOptions(name=n, topk=1) for n in ("recall_at_topk", "precision_at_topk")]
    return VectorPairsTask(label="label", session=session, loss=loss, metrics=metrics)


def by_hand(loss, sessions):
    """Compute the loss of every sample from the definition, pair by pair."""
    similarity = (VECTORS @ VECTORS.T).double()
    losses = []
    for i in range(4):
        same = [
            j for j in range(4) if j != i and LABELS[j] == LABELS[i] and sessions[j] == sessions[i]
        ]
        other = [j for j in range(4) if j != i and j not in same]
        if not (same and other):
            continue
        positive = [float(similarity[i, j]) for j in same]
        negative = [float(similarity[i, j]) for j in other]
        if isinstance(loss, CircleLoss):
            m, g = loss.margin, loss.gamma
            p = math.log(sum(math.exp(-g * max(0, 1 + m - s) * (s - 1 + m)) for s in positive))
            n = math.log(sum(math.exp(g * max(0, s + m) * (s - m)) for s in negative))
            losses.append(math.log1p(math.exp(p + n)))
        else:
            a, b, c = loss.alpha, loss.beta, loss.center
            p = math.log1p(sum(math.exp(-a * (max(0, s) - c)) for s in positive)) / a
            n = math.log1p(sum(math.exp(b * (max(0, s) - c)) for s in negative)) / b
            losses.append(p + n)
    return sum(losses) / len(losses)


@pytest.mark.parametrize(
    "loss",
    [CircleLoss(margin=0.25, gamma=8.0), MultiSimilarityLoss(alpha=2.0, beta=5.0, center=0.5)],
)
@pytest.mark.parametrize("sessions", [[1, 1, 1, 1], [1, 1, 2, 2]])
def test_the_loss_is_that_of_its_definition(loss, sessions):
    found = task(loss).loss({"norm_emb": VECTORS}, batch(sessions))
    assert float(found) == pytest.approx(by_hand(loss, sessions), rel=1e-4)


def test_a_batch_without_pairs_has_no_loss():
    found = task(CircleLoss(margin=0.25, gamma=8.0)).loss(
        {"norm_emb": VECTORS}, batch([1, 2, 3, 4])
    )
    assert float(found) == 0


def test_neighbours_are_counted_for_samples_that_have_a_positive_one():
    counted = task(CircleLoss(margin=0.25, gamma=8.0))
    metric = counted.new_metric()
    counted.count(metric, {"norm_emb": VECTORS}, batch([1, 1, 1, 1]))
    # The nearest of the first two are each other; the nearest of the third has another label.
    values = metric.compute()
    assert values["precision@1"] == pytest.approx(2 / 3)
    assert values["recall@1"] == pytest.approx(1 / 3)


def test_other_metrics_are_refused():
    with pytest.raises(ValueError, match="auc is not for vectors"):
        VectorPairsTask(
            label="label",
            session=None,
            loss=CircleLoss(margin=0.25, gamma=8.0),
            metrics=[MetricOptions(name="auc")],
        )
