"""Learns vectors in which samples of the same label and session are close to each other."""

# Shape suffixes: B samples, D width, K neighbours.

import dataclasses
from collections.abc import Sequence
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional

from fleetrec.config.groups import MetricOptions
from fleetrec.core.batch import Batch
from fleetrec.tasks.mean_metric import MeanMetric
from fleetrec.tasks.metric import Metric
from fleetrec.tasks.metric_set import MetricSet
from fleetrec.tasks.sample_space import ids_of
from fleetrec.tasks.task import Outputs, Task, output_of

EMBEDDING = "norm_emb"
METRICS = MappingProxyType({"recall_at_topk": "recall", "precision_at_topk": "precision"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CircleLoss:
    """softplus(lse(g a_n (s_n - m)) + lse(-g a_p (s_p - 1 + m))) over the pairs of a sample.

    Sun et al., "Circle Loss: A Unified Perspective of Pair Similarity Optimization", CVPR 2020. The
    weights a grow with the distance of a similarity s from its optimum.
    """

    margin: float
    gamma: float

    def of(self, similarity_BB: Tensor, positive_BB: Tensor, negative_BB: Tensor) -> Tensor:
        """Return loss_B."""
        fixed_BB, lowest = similarity_BB.detach(), torch.finfo(similarity_BB.dtype).min / 4
        weight_p = torch.relu(1 + self.margin - fixed_BB)
        weight_n = torch.relu(fixed_BB + self.margin)
        scores_p = -self.gamma * weight_p * (similarity_BB - 1 + self.margin)
        scores_n = self.gamma * weight_n * (similarity_BB - self.margin)
        worst_p = scores_p.masked_fill(~positive_BB, lowest).logsumexp(dim=1)
        worst_n = scores_n.masked_fill(~negative_BB, lowest).logsumexp(dim=1)
        return functional.softplus(worst_p + worst_n)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MultiSimilarityLoss:
    """log(1 + sum exp(-a (s_p - l))) / a + log(1 + sum exp(b (s_n - l))) / b.

    Wang et al., "Multi-Similarity Loss with General Pair Weighting for Deep Metric Learning", CVPR
    2019.
    """

    alpha: float
    beta: float
    center: float

    def of(self, similarity_BB: Tensor, positive_BB: Tensor, negative_BB: Tensor) -> Tensor:
        """Return loss_B."""
        near_BB = similarity_BB.clamp(min=0)
        terms_p = torch.exp(-self.alpha * (near_BB - self.center)) * positive_BB
        terms_n = torch.exp(self.beta * (near_BB - self.center)) * negative_BB
        loss_p = terms_p.sum(dim=1).log1p() / self.alpha
        return loss_p + terms_n.sum(dim=1).log1p() / self.beta


class VectorPairsTask(Task):
    """Learns from the vectors of a batch, which a model returns normalised."""

    def __init__(
        self,
        *,
        label: str,
        session: str | None,
        loss: CircleLoss | MultiSimilarityLoss,
        metrics: Sequence[MetricOptions],
    ) -> None:
        wrong = [metric.name for metric in metrics if metric.name not in METRICS]
        if wrong:
            raise ValueError(f"metric {wrong[0]} is not for vectors; expected {', '.join(METRICS)}")
        self.label = label
        self._session, self._loss, self._metrics = session, loss, tuple(metrics)

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the mean loss of the samples that have both kinds of pairs, else 0."""
        embedding_BD = output_of(outputs, EMBEDDING)
        positive_BB, negative_BB = self._pairs(batch)
        losses_B = self._loss.of(embedding_BD @ embedding_BD.T, positive_BB, negative_BB)
        counts_B = positive_BB.any(dim=1) & negative_BB.any(dim=1)
        return (losses_B * counts_B).sum() / counts_B.sum().clamp(min=1)

    def new_metric(self) -> Metric:
        """Return empty metrics."""
        name = "circle_loss" if isinstance(self._loss, CircleLoss) else "ms_loss"
        found = [MeanMetric(f"{METRICS[one.name]}@{one.topk}") for one in self._metrics]
        return MetricSet([MeanMetric(f"loss/loss/{name}"), *found])

    def count(self, metric: Metric, outputs: Outputs, batch: Batch) -> None:
        """Add a batch: the nearest neighbours of samples that have a positive one."""
        assert isinstance(metric, MetricSet)
        positive_BB, _ = self._pairs(batch)
        embedding_BD = output_of(outputs, EMBEDDING)
        similarity_BB = (embedding_BD @ embedding_BD.T).fill_diagonal_(-2.0)
        has_any_B = positive_BB.any(dim=1)
        values = [self.loss(outputs, batch).repeat(batch.num_samples)]
        for one in self._metrics:
            k = min(one.topk, max(1, batch.num_samples - 1))
            nearest_BK = similarity_BB.topk(k, dim=1).indices
            hits_B = positive_BB.gather(1, nearest_BK).sum(dim=1)
            most = positive_BB.sum(dim=1) if one.name == "recall_at_topk" else k
            values.append((hits_B / most)[has_any_B])
        for mean, value_B in zip(metric.metrics, values, strict=True):
            assert isinstance(mean, MeanMetric)
            if len(value_B):
                mean.update(value_B)

    def _pairs(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return which pairs of different samples are positive, and which negative."""
        labels_B = batch.label(self.label)
        positive_BB = labels_B == labels_B.unsqueeze(1)
        if self._session is not None:
            sessions_B = ids_of(batch, self._session)
            positive_BB = positive_BB & (sessions_B == sessions_B.unsqueeze(1))
        is_self_BB = torch.eye(len(labels_B), dtype=torch.bool, device=labels_B.device)
        return positive_BB & ~is_self_BB, ~positive_BB & ~is_self_BB
