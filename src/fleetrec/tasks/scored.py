"""A task of a pipeline model: one label, one or several losses, and metrics."""

# Shape suffixes: B samples, K classes.

from collections.abc import Sequence

import torch
from torch import Tensor

from fleetrec.config.groups import MetricOptions
from fleetrec.config.losses import BINARY, NUMERIC, LossKind, LossOptions, SampleSpaceOptions
from fleetrec.core.batch import Batch
from fleetrec.core.errors import DataError
from fleetrec.tasks.binary_metric import BinaryMetric
from fleetrec.tasks.confusion import ThresholdMetric
from fleetrec.tasks.group_auc import GroupAuc
from fleetrec.tasks.labels import check_binary
from fleetrec.tasks.loss_terms import LOSS_NAMES, LossInputs, loss_term, output_values
from fleetrec.tasks.mean_metric import MeanMetric, hits_at
from fleetrec.tasks.metric import Metric
from fleetrec.tasks.metric_set import MetricSet
from fleetrec.tasks.sample_space import ids_of, space_weights
from fleetrec.tasks.task import Outputs, Task, output_of

GROUPED = ("gauc", "session_auc")
OF_PROBABILITIES = ("auc", *GROUPED, "max_f1", "precision", "recall")
NO_SPACE = SampleSpaceOptions()


class ScoredTask(Task):
    """Learns one label from the outputs ``logits``, or ``y`` for a number, with a suffix.

    ``previous`` is the name of the task whose probability bounds the one of this task, for the loss
    ``ordered_calibration``.
    """

    def __init__(  # noqa: PLR0913
        self,
        *,
        label: str,
        loss: LossKind = "classification",
        losses: Sequence[LossOptions] = (),
        num_class: int = 1,
        metrics: Sequence[MetricOptions] = (),
        name: str = "",
        weight: float = 1.0,
        uses_sample_weight: bool = True,
        space: SampleSpaceOptions = NO_SPACE,
        previous: str | None = None,
        keeps_samples: bool = True,
        keeps_in_training: bool = False,
    ) -> None:
        self.label = label
        self.name = name
        self.losses = tuple(losses) or (LossOptions(kind=loss),)
        self.loss_name = self.losses[0].kind
        self.num_class = num_class
        self.weight = weight
        self._metrics = tuple(
            metric for metric in metrics if keeps_samples or metric.name not in GROUPED
        )
        self._uses_sample_weight = uses_sample_weight
        self._space = space
        self._previous = previous
        self._settings = {
            "label": label,
            "losses": self.losses,
            "num_class": num_class,
            "metrics": metrics,
            "name": name,
            "weight": weight,
            "uses_sample_weight": uses_sample_weight,
            "space": space,
            "previous": previous,
            "keeps_in_training": keeps_in_training,
        }
        self._keeps_in_training = keeps_in_training
        self._check_losses()
        for metric in metrics:
            self._check_metric(metric)

    def in_training(self) -> "ScoredTask":
        """Return the task without metrics that keep every sample."""
        keeps = self._keeps_in_training
        return ScoredTask(**self._settings, keeps_samples=keeps)  # type: ignore[arg-type]

    def outputs(self, logits_BK: Tensor) -> dict[str, Tensor]:
        """Return the outputs of a model for its logits, by the names used in serving."""
        return output_values(self.losses, logits_BK, suffix=f"_{self.name}" if self.name else "")

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the weighted losses of the batch times the weight of the task."""
        terms = self.terms(outputs, batch)
        loss = terms[0] if len(terms) == 1 else torch.stack(terms).sum()
        return loss if self.weight == 1 else loss * self.weight

    def terms(self, outputs: Outputs, batch: Batch) -> list[Tensor]:
        """Return each loss times its own weight."""
        found = []
        for options in self.losses:
            term = self._term(options, outputs, batch)
            found.append(term if options.weight == 1 else term * options.weight)
        return found

    def new_metric(self) -> Metric:
        """Return empty metrics."""
        losses = [MeanMetric(f"loss/loss/{LOSS_NAMES[options.kind]}") for options in self.losses]
        return MetricSet([*losses, *(_new_metric(options) for options in self._metrics)])

    def count(self, metric: Metric, outputs: Outputs, batch: Batch) -> None:
        """Add a batch to all metrics."""
        assert isinstance(metric, MetricSet)
        num_losses = len(self.losses)
        losses, others = metric.metrics[:num_losses], metric.metrics[num_losses:]
        for term, one in zip(self.terms(outputs, batch), losses, strict=True):
            assert isinstance(one, MeanMetric)
            one.update(term.repeat(batch.num_samples))
        for options, one in zip(self._metrics, others, strict=True):
            self._count(options, one, outputs, batch)

    def _term(self, options: LossOptions, outputs: Outputs, batch: Batch) -> Tensor:
        """Return one loss without its weight."""
        labels_B = batch.label(self.label)
        if self.num_class > 1 and options.kind in ("classification", "softmax"):
            self._check_classes(labels_B)
        numeric = options.kind in NUMERIC
        previous_B = None
        if options.kind == "ordered_calibration" and self._previous is not None:
            previous_B = output_of(outputs, f"probs_{self._previous}")
        return loss_term(
            options,
            LossInputs(
                scores=self._output(outputs, "y" if numeric else "logits"),
                labels_B=labels_B,
                weights_B=self._weights(batch),
                sessions_B=ids_of(batch, options.session) if options.session else None,
                previous_B=previous_B,
            ),
        )

    def _weights(self, batch: Batch) -> Tensor | None:
        weights_B = batch.weights_B if self._uses_sample_weight else None
        if self._space == NO_SPACE:
            return weights_B
        space_B = space_weights(self._space, batch)
        return space_B if weights_B is None else weights_B * space_B

    def _count(
        self, options: MetricOptions, metric: Metric, outputs: Outputs, batch: Batch
    ) -> None:
        labels_B = batch.label(self.label)
        if options.name in OF_PROBABILITIES:
            if self.loss_name == "ziln":
                labels_B = (labels_B > 0).to(labels_B.dtype)
            check_binary(self.label, labels_B)
        if isinstance(metric, BinaryMetric | ThresholdMetric):
            metric.update(self._positive(outputs), labels_B)
        elif isinstance(metric, GroupAuc):
            groups_B = ids_of(batch, options.feature, what=options.name)
            metric.update(groups_B, self._positive(outputs), labels_B)
        elif isinstance(metric, MeanMetric):
            metric.update(self._values(options, outputs, labels_B))

    def _positive(self, outputs: Outputs) -> Tensor:
        """Return the probability of a positive label."""
        probs = self._output(outputs, "probs")
        return probs[:, 1] if probs.dim() == 2 else probs

    def _values(self, options: MetricOptions, outputs: Outputs, labels_B: Tensor) -> Tensor:
        if options.name == "accuracy":
            return (self._output(outputs, "y") == labels_B).to(torch.float32)
        if options.name == "recall_at_topk":
            return hits_at(self._output(outputs, "logits"), labels_B, options.topk)
        has_y = self.loss_name in (*NUMERIC, "ziln")
        error_B = (self._output(outputs, "y") if has_y else self._positive(outputs)) - labels_B
        return error_B.abs() if options.name == "mean_absolute_error" else error_B.square()

    def _output(self, outputs: Outputs, name: str) -> Tensor:
        return output_of(outputs, f"{name}_{self.name}" if self.name else name)

    def _check_losses(self) -> None:
        needs = {"jrc": (2, 2), "ziln": (3, 3), "softmax": (2, None)}
        for options in self.losses:
            kind = options.kind
            least, most = needs.get(kind, (1, 1 if kind in (*BINARY, *NUMERIC) else None))
            if kind == "classification":
                most = None
            if self.num_class < least or (most is not None and self.num_class > most):
                wanted = str(least) if least == most else f"at least {least}"
                raise ValueError(
                    f"loss_type {kind} needs num_class of {wanted}, got {self.num_class}"
                )
            if kind in ("circle", "multi_similarity", "softmax_negative_mining"):
                raise ValueError(f"loss_type {kind} is for models of vectors, not for {self.label}")

    def _check_metric(self, metric: MetricOptions) -> None:
        has_probability = self.loss_name in (*BINARY, "jrc", "ziln") and self.num_class <= 3
        has_probability = has_probability and (self.num_class <= 2 or self.loss_name == "ziln")
        has_number = has_probability or self.loss_name in NUMERIC
        needs = {
            **dict.fromkeys(OF_PROBABILITIES, ("a loss of one class", has_probability)),
            **dict.fromkeys(("accuracy", "recall_at_topk"), ("num_class > 1", self.num_class > 1)),
            **dict.fromkeys(
                ("precision_at_topk", "avg_precision_at_topk"), ("a model of vectors", False)
            ),
        }
        wanted, is_there = needs.get(metric.name, ("a number or one class", has_number))
        if not is_there:
            raise ValueError(f"metric {metric.name} needs {wanted}")

    def _check_classes(self, labels_B: Tensor) -> None:
        odd = labels_B[(labels_B < 0) | (labels_B >= self.num_class) | (labels_B % 1 != 0)]
        if len(odd):
            raise DataError(
                f"label {self.label!r} must be a class from 0 to {self.num_class - 1}, got "
                f"{float(odd[0]):g}"
            )


def _new_metric(options: MetricOptions) -> Metric:
    match options.name:
        case "auc":
            return NamedAuc()
        case "gauc" | "session_auc":
            return GroupAuc(options.name, reduction=options.reduction)
        case "max_f1" | "precision" | "recall":
            return ThresholdMetric(options.name)
        case "recall_at_topk":
            return MeanMetric(f"recall@{options.topk}")
    return MeanMetric(options.name, is_root=options.name == "root_mean_squared_error")


class NamedAuc(BinaryMetric):
    """AUC alone, under the name used in pipelines."""

    def headline(self) -> dict[str, float]:
        """Return AUC."""
        return self.compute()

    def compute(self) -> dict[str, float]:
        """Return AUC."""
        return {"auc": super().headline()["AUC"]}
