"""Distillation: an output of the model learns a soft label of the data."""

# Shape suffixes: B samples, K classes.

import torch
from torch import Tensor
from torch.nn import functional

from fleetrec.config.losses import DistillationOptions, SampleSpaceOptions
from fleetrec.core.batch import Batch
from fleetrec.core.errors import DataError
from fleetrec.tasks.loss_terms import LossInputs, kl_loss, loss_term
from fleetrec.tasks.losses import mean_of, squared_loss
from fleetrec.tasks.mean_metric import MeanMetric
from fleetrec.tasks.metric import Metric
from fleetrec.tasks.sample_space import ids_of, space_weights
from fleetrec.tasks.task import Outputs, Task, output_of

EPS = 1e-7


class DistillationTask(Task):
    """A loss between an output and a label that another model has made."""

    def __init__(self, options: DistillationOptions) -> None:
        self.label = options.label
        self._options = options

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the loss times its weight."""
        return self._options.loss.weight * self._plain(outputs, batch)

    def new_metric(self) -> Metric:
        """Return an empty mean of the loss."""
        return MeanMetric(f"loss/loss/{self._options.name}")

    def count(self, metric: Metric, outputs: Outputs, batch: Batch) -> None:
        """Add a batch."""
        assert isinstance(metric, MeanMetric)
        metric.update(self.loss(outputs, batch).repeat(batch.num_samples))

    def _plain(self, outputs: Outputs, batch: Batch) -> Tensor:
        options = self._options
        scores = output_of(outputs, options.output)
        label = self._label(batch, like=scores)
        weights_B = batch.weights_B
        if options.space != SampleSpaceOptions():
            space_B = space_weights(options.space, batch)
            weights_B = space_B if weights_B is None else weights_B * space_B
        match options.loss.kind:
            case "l2" | "sigmoid_l2":
                return squared_loss(scores, label, weights_B)
            case "cross_entropy" | "binary_cross_entropy" | "classification" | "softmax":
                return _cross_entropy(self._logits(scores), self._probs(label), weights_B)
            case "kl":
                logits = self._logits(scores)
                is_single = logits.dim() == 1
                probs = torch.sigmoid(logits) if is_single else torch.softmax(logits, dim=1)
                return kl_loss(probs, self._probs(label), weights_B)
        session = options.loss.session
        return loss_term(
            options.loss,
            LossInputs(
                scores=self._logits(scores) * options.loss.temperature,
                labels_B=label,
                weights_B=weights_B,
                sessions_B=ids_of(batch, session) if session else None,
            ),
        )

    def _label(self, batch: Batch, *, like: Tensor) -> Tensor:
        if like.dim() == 1 or self.label not in batch.dense:
            return batch.label(self.label)
        label = batch.dense[self.label].flatten(1)
        if label.shape != like.shape:
            raise DataError(
                f"kd: {self.label!r} has {label[0].numel()} numbers per sample, the output "
                f"{self._options.output!r} has {like[0].numel()}; see label_dim"
            )
        return label

    def _logits(self, scores: Tensor) -> Tensor:
        if not self._options.output_is_logits:
            scores = _to_logits(scores)
        return scores / self._options.loss.temperature

    def _probs(self, label: Tensor) -> Tensor:
        """Return the probabilities of the soft label at the temperature."""
        logits = label if self._options.label_is_logits else _to_logits(label)
        logits = logits / self._options.loss.temperature
        return torch.sigmoid(logits) if logits.dim() == 1 else torch.softmax(logits, dim=1)


def _to_logits(probs: Tensor) -> Tensor:
    clamped = probs.clamp(EPS, 1 - EPS)
    return torch.logit(clamped) if probs.dim() == 1 else clamped.log()


def _cross_entropy(logits: Tensor, probs: Tensor, weights_B: Tensor | None) -> Tensor:
    if logits.dim() == 1:
        losses_B = functional.binary_cross_entropy_with_logits(logits, probs, reduction="none")
    else:
        losses_B = functional.cross_entropy(logits, probs, reduction="none")
    return mean_of(losses_B, weights_B)
