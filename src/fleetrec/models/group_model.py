"""The base class of models over feature groups; pipelines refer to them by class name.

A model class is a file ``models/<group>/<name>/pipeline.py`` with a class ``Model(GroupModel)``
that declares its class name and its message in ``model_config``.
"""

# Shape suffixes: B samples, K classes, X width.

import re
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, TypeVar

import torch
from torch import Tensor, nn

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.model import Dnn
from fleetrec.core.batch import Batch
from fleetrec.models import base
from fleetrec.models.groups import GroupEmbeddings, row_penalty
from fleetrec.nn.activation import ActivationName
from fleetrec.nn.mlp import Mlp
from fleetrec.tasks.distillation import DistillationTask
from fleetrec.tasks.scored import ScoredTask
from fleetrec.tasks.task import Outputs, Task

LOSS = "_loss/"  # before the names of further losses among the outputs, one value per sample
T = TypeVar("T")


class GroupModel(base.Model):
    """A model over groups of features."""

    class Config(GroupModelOptions):
        """Options of a model in a pipeline."""

    model_class: ClassVar[str]
    message: ClassVar[str]
    has_backbone: ClassVar[bool] = False

    def __init__(
        self,
        config: GroupModelOptions,
        *,
        l2: float,
        tasks: Sequence[Task] = (),
        wide_dim: int = 1,
        second_optimizer: Collection[str] = (),
        negatives: Collection[str] = (),
    ) -> None:
        if config.backbone is not None and not self.has_backbone:
            raise ValueError(
                f"backbone is for RankModel, MultiTaskModel and MatchModel, not {self.model_class}"
            )
        scored = tuple(tasks) or (task_of(config),)
        distilled = [DistillationTask(one) for one in config.distillation]
        super().__init__(tasks=[*scored, *distilled])
        self.scored = scored
        self._labels = config.labels
        self._loss_weights = config.loss_weights
        num_losses = sum(len(one.losses) for one in scored if isinstance(one, ScoredTask))
        if config.loss_weights == "uncertainty":
            self.loss_uncertainty = nn.Parameter(torch.zeros(num_losses))
        self.inputs = GroupEmbeddings(
            config.groups,
            attention_groups=config.attention_groups,
            wide_dim=wide_dim,
            second_optimizer=second_optimizer,
            negatives=negatives,
            variational_dropout=config.variational_dropout,
        )
        self._l2 = l2
        self._embedding_l2 = config.embedding_regularization
        self._scope_of_table = _scopes_of_tables(config)

    def scopes(self) -> Mapping[str, str]:
        """Return the user-visible names of parts of the network."""
        return {}

    @property
    def scored_tasks(self) -> list[ScoredTask]:
        """Return the tasks that have logits."""
        return [task for task in self.scored if isinstance(task, ScoredTask)]

    def outputs(self, logits_BK: Tensor) -> dict[str, Tensor]:
        """Return the outputs of a model with one task."""
        (task,) = self.scored
        assert isinstance(task, ScoredTask)
        return task.outputs(logits_BK)

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the loss of all tasks, plus weight penalties in training."""
        loss = self._task_loss(outputs, batch)
        if not self.training:
            return loss
        noise = self.inputs.noise.penalty(batch.num_samples)
        loss = loss if noise is None else loss + noise
        kernels = [layer.weight for layer in self.modules() if isinstance(layer, nn.Linear)]
        if self._l2 and kernels:
            squares = torch.stack([kernel.square().sum() for kernel in kernels])
            loss = loss + self._l2 * squares.sum() / 2
        if self._embedding_l2:
            loss = loss + self._embedding_l2 * row_penalty(batch)
        extra = [value.mean() for name, value in outputs.items() if name.startswith(LOSS)]
        return loss + torch.stack(extra).sum() if extra else loss

    def label_names(self) -> set[str]:
        """Return all labels of the data, whether a task learns them or not."""
        return super().label_names() | set(self._labels)

    def _task_loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the sum over the tasks; several losses may have learned or random weights."""
        is_random = self._loss_weights == "random"
        if self._loss_weights == "fixed" or (is_random and not self.training):
            return super().loss(outputs, batch)
        others = [task for task in self.tasks if not isinstance(task, ScoredTask)]
        terms = [
            term * task.weight
            for task in self.tasks
            if isinstance(task, ScoredTask)
            for term in task.terms(outputs, batch)
        ]
        losses_N = torch.stack(terms)
        if is_random:
            weights_N = torch.softmax(torch.randn(len(terms), device=losses_N.device), dim=0)
            loss = (losses_N * weights_N).sum()
        else:
            doubts_N = self.loss_uncertainty
            loss = (losses_N * (-doubts_N).exp() + doubts_N / 2).sum()
        return torch.stack([loss, *(task.loss(outputs, batch) for task in others)]).sum()

    def optimizer_of(self, variable: str, *, num_optimizers: int) -> int:
        """Assign tables and their combiners to the first optimizer, the rest to the second."""
        if num_optimizers > 2:
            raise ValueError(
                f"optimizer_config: {self.model_class} takes at most 2, got {num_optimizers}"
            )
        is_of_inputs = variable.startswith("inputs.") or self.is_table(variable)
        return 0 if is_of_inputs else 1

    def is_table(self, variable: str) -> bool:
        """Return whether a variable is a table, not a parameter."""
        return variable in self.inputs.embeddings.tables

    def variable_name(self, variable: str) -> str:
        """Return names such as ``input_layer/city_embedding/embedding_weights``."""
        if self.is_table(variable):
            return f"{self._scope_of_table[variable]}/embedding_weights"
        for prefix, scope in self.scopes().items():
            match = re.fullmatch(rf"{re.escape(prefix)}\.(\d+)\.([01])\.(\w+)", variable)
            if match:
                layer, place, name = match.groups()
                inner = f"dnn_{layer}" if place == "0" else f"dnn_{layer}/bn"
                return f"{scope}/{inner}/{_leaf(name, is_norm=place == '1')}"
            if variable.startswith(f"{prefix}."):
                rest = variable.removeprefix(f"{prefix}.")
                return f"{scope}/{_leaf(rest, is_norm=False)}".replace(".", "/")
        return variable.replace(".", "/")


def task_of(config: GroupModelOptions) -> ScoredTask:
    """Return the task of a model that learns one label."""
    return ScoredTask(
        label=config.labels[0],
        loss=config.loss,
        losses=config.losses,
        num_class=config.num_class,
        metrics=config.metrics,
        keeps_in_training=config.metrics_in_training,
    )


def needed(message: T | None, name: str) -> T:
    """Return a required message; raise an error if it is missing."""
    if message is None:
        raise ValueError(f"model_config needs {name} {{ ... }}")
    return message


def mlp_of(dnn: Dnn, in_dim: int) -> Mlp:
    """Return the layers that a message describes."""
    return Mlp(
        in_dim,
        dnn.hidden,
        activation=activation_of(dnn),
        batch_norm=dnn.use_bn,
        dropout=dnn.dropout_ratio or 0.0,
    )


def activation_of(dnn: Dnn) -> ActivationName:
    """Return the activation of a pipeline name, with or without a module prefix."""
    name: ActivationName = dnn.activation.rpartition(".")[2]  # type: ignore[assignment]
    return name


def _leaf(name: str, *, is_norm: bool) -> str:
    if is_norm:
        known = {
            "weight": "gamma",
            "bias": "beta",
            "running_mean": "moving_mean",
            "running_var": "moving_variance",
        }
        return known.get(name, name)
    return "kernel" if name == "weight" else name


def _scopes_of_tables(config: GroupModelOptions) -> dict[str, str]:
    """Number input layers in the order in which models call their groups: wide ones first."""
    scopes: dict[str, str] = {}
    ordered = sorted(config.groups, key=lambda group: not group.is_wide)
    attention = [*config.attention_groups, *(one for group in ordered for one in group.attention)]
    layers = [
        (group.name, "input_layer" if number == 0 else f"input_layer_{number}", group.features)
        for number, group in enumerate(ordered)
    ]
    layers += [(one.name, one.name, (*one.own_keys, *one.history, *one.aux)) for one in attention]
    for group, layer, features in layers:
        for feature in features:
            if feature.embedded is None:
                continue
            is_own = feature.embedded.table == f"{group}.{feature.name}"
            inner = f"{feature.name}_embedding" if is_own else feature.embedded.table
            scopes.setdefault(feature.embedded.table, f"{layer}/{inner}")
    return scopes
