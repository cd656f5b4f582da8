"""Ranking metrics by hand, and as sums."""

import math

import pytest
import torch

from fleetrec.tasks.pairwise import PosNegRatio
from fleetrec.tasks.ranking import RankingMetric, ranks_of


def test_the_rank_of_the_label_counts_ties_against_it():
    logits = torch.tensor([[0.1, 0.9, 0.5], [0.5, 0.5, 0.1], [3.0, 2.0, 1.0]])
    assert ranks_of(logits, torch.tensor([1, 0, 2])).tolist() == [1, 2, 3]


def test_figures_are_those_of_the_definitions():
    metric = RankingMetric([1, 3])
    metric.update(torch.tensor([1, 2, 3, 4]))
    values = metric.compute()
    assert values["RECALL@1"] == 0.25
    assert values["RECALL@3"] == 0.75
    assert values["NDCG@3"] == pytest.approx((1 + 1 / math.log2(3) + 0.5) / 4)
    assert values["MRR@3"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 4)


def test_halves_merge_to_the_whole():
    halves = [RankingMetric([2]), RankingMetric([2])]
    halves[0].update(torch.tensor([1, 5]))
    halves[1].update(torch.tensor([2]))
    halves[0].merge(halves[1])
    whole = RankingMetric([2])
    whole.update(torch.tensor([1, 5, 2]))
    assert halves[0].compute() == whole.compute()


def test_a_tie_is_a_wrong_pair():
    metric = PosNegRatio()
    scores = torch.tensor([[1.0], [1.0], [0.0]])
    metric.update(scores, torch.tensor([[0.0, 0.5], [1.0, 0.0], [2.0, 2.0]]), torch.ones(3))
    assert metric.compute() == {"LOSS": 1.0, "ACC": 0.5, "PN": 1.0}
