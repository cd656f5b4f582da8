"""Losses of pipelines, compared with what EasyRec's own tests expect and with plain loops."""

import itertools
import math

import pytest
import torch

from fleetrec.config.losses import LOSS_KINDS, LossOptions
from fleetrec.tasks.confusion import ThresholdMetric
from fleetrec.tasks.loss_terms import LossInputs, loss_term, output_values

LOGITS = torch.tensor([0.1, 0.5, 0.3, 0.8, -0.1, 0.3])
LABELS = torch.tensor([1.0, 1.0, 0.0, 0.0, 1.0, 1.0])
SESSIONS = torch.tensor([1, 1, 1, 2, 2, 2])
WIDTHS = {"jrc": 2, "ziln": 3, "softmax": 2}


def term(kind, scores=LOGITS, labels=LABELS, **options):
    previous = torch.full_like(labels, 0.4)
    return loss_term(
        LossOptions(kind=kind, **options),
        LossInputs(scores=scores, labels_B=labels, sessions_B=SESSIONS, previous_B=previous),
    )


def test_f1_reweighting_gives_the_published_value():
    assert term("f1_reweighted", f1_beta_square=4.0).item() == pytest.approx(0.47844395, abs=1e-6)


def test_max_f1_gives_the_published_value():
    metric = ThresholdMetric("max_f1")
    metric.update(torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([1.0, 0.0, 0.0, 1.0]))
    assert metric.compute() == {"max_f1": pytest.approx(2 / 3)}


@pytest.mark.parametrize("kind", ["pairwise", "pairwise_logistic", "pairwise_hinge"])
def test_pairs_of_a_session_are_compared(kind):
    options = {"margin": 0.25}
    pairs = [
        (LOGITS[i] - LOGITS[j]).item()
        for i, j in itertools.product(range(6), range(6))
        if LABELS[i] > LABELS[j] and SESSIONS[i] == SESSIONS[j]
    ]
    if kind == "pairwise_hinge":
        wanted = [max(0.0, 0.25 - pair) for pair in pairs]
    else:
        wanted = [math.log1p(math.exp(0.25 - pair)) for pair in pairs]
    found = term(kind, session="s", **options)
    assert found.item() == pytest.approx(sum(wanted) / len(wanted), abs=1e-6)


def test_pairs_without_a_higher_label_cost_nothing():
    assert term("pairwise", labels=torch.ones(6)).item() == 0.0


def test_jrc_ranks_a_sample_among_those_of_its_session():
    logits = torch.stack([-LOGITS, LOGITS], dim=1)
    entropy = torch.nn.functional.cross_entropy(logits, LABELS.long())
    ranked = []
    for i in range(6):
        same = SESSIONS[i] == SESSIONS
        label = int(LABELS[i])
        ranked.append(-(logits[i, label] - logits[same][:, label].logsumexp(dim=0)))
    wanted = 0.3 * entropy + 0.7 * torch.stack(ranked).mean()
    found = term("jrc", scores=logits, alpha=0.3, session="s")
    assert found.item() == pytest.approx(wanted.item(), abs=1e-6)


def test_a_list_is_a_softmax_over_its_session():
    wanted = 0.0
    for session in (1, 2):
        mine = session == SESSIONS
        wanted -= (LABELS[mine] * torch.log_softmax(LOGITS[mine], dim=0)).sum().item() / 2
    assert term("listwise_rank", session="s").item() == pytest.approx(wanted, abs=1e-6)


def test_the_order_of_a_list_is_that_of_its_labels():
    labels = torch.tensor([3.0, 2.0, 1.0, 1.0, 2.0, 3.0])
    wanted = 0.0
    for order in ([0, 1, 2], [5, 4, 3]):
        for place in range(3):
            rest = LOGITS[order[place:]]
            wanted -= (rest[0] - rest.logsumexp(dim=0)).item() / 2
    found = term("listwise_distill", labels=labels, session="s")
    assert found.item() == pytest.approx(wanted, abs=1e-6)


def test_a_calibrated_order_costs_what_is_above_the_task_before():
    wanted = (torch.sigmoid(LOGITS) - 0.4).clamp(min=0).mean()
    assert term("ordered_calibration").item() == pytest.approx(wanted.item(), abs=1e-6)


@pytest.mark.parametrize("kind", LOSS_KINDS[:-3])
def test_every_loss_has_a_finite_gradient(kind):
    width = WIDTHS.get(kind)
    scores = torch.randn(6, width) if width else torch.randn(6)
    scores.requires_grad_()
    term(kind, scores=scores, session="s").backward()
    assert scores.grad is not None
    assert torch.isfinite(scores.grad).all()


def test_zero_inflated_values_are_predicted_by_their_mean():
    outputs = output_values(
        [LossOptions(kind="ziln")], torch.tensor([[0.0, 1.0, -50.0]]), suffix="_a"
    )
    assert outputs["probs_a"].item() == pytest.approx(0.5)
    assert outputs["y_a"].item() == pytest.approx(0.5 * math.e, rel=1e-5)
