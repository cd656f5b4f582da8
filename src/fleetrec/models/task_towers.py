"""Towers of a multi-task model: each task has its own layers, label, loss and metrics."""

# Shape suffixes: B samples, X width, K classes.

from collections.abc import Sequence

from torch import Tensor, nn

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.losses import KINDS, loss_options, space_options
from fleetrec.config.pipeline_dialect.model import TaskTower
from fleetrec.config.pipeline_dialect.translate import metric_options
from fleetrec.models.group_model import mlp_of
from fleetrec.nn.mlp import Mlp, scaled_linear
from fleetrec.tasks.scored import ScoredTask


class TaskTowers(nn.Module):
    """One tower per task: hidden layers and an output layer of width ``out_dims``."""

    def __init__(self, layers: Sequence[Mlp], *, out_dims: Sequence[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.outs = nn.ModuleList(
            scaled_linear(layer.out_dim, out_dim)
            for layer, out_dim in zip(layers, out_dims, strict=True)
        )

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Return logits_BK of every task for one x_BX each."""
        parts = zip(self.layers, self.outs, inputs, strict=True)
        return [out(layers(x_BX)) for layers, out, x_BX in parts]


def tower_layers(towers: Sequence[TaskTower], in_dim: int) -> list[Mlp]:
    """Return the layers of every tower of a message."""
    return [Mlp(in_dim, ()) if tower.dnn is None else mlp_of(tower.dnn, in_dim) for tower in towers]


def tower_scopes(prefix: str, tasks: Sequence[ScoredTask]) -> dict[str, str]:
    """Return the user-visible names of the towers of these tasks."""
    names = [task.name for task in tasks]
    layers = {f"{prefix}.layers.{number}": name for number, name in enumerate(names)}
    outs = {f"{prefix}.outs.{number}": f"output_{name}" for number, name in enumerate(names)}
    return {**layers, **outs}


def outputs_of(tasks: Sequence[ScoredTask], logits: Sequence[Tensor]) -> dict[str, Tensor]:
    """Return the outputs of a model for the logits_BK of every task."""
    outputs: dict[str, Tensor] = {}
    for task, logits_BK in zip(tasks, logits, strict=True):
        outputs |= task.outputs(logits_BK)
    return outputs


def tasks_of(towers: Sequence[TaskTower], config: GroupModelOptions) -> list[ScoredTask]:
    """Return the tasks; a tower without a label uses the label field of the same index."""
    if len(config.labels) < len(towers) and not all(tower.label_name for tower in towers):
        raise ValueError(
            f"{len(towers)} task_towers need as many label_fields, got {len(config.labels)}"
        )
    return [
        ScoredTask(
            label=tower.label_name or config.labels[number],
            loss=KINDS[tower.loss_type],
            losses=[loss_options(one) for one in tower.losses],
            num_class=tower.num_class,
            metrics=metric_options(tower.metrics_set),
            keeps_in_training=config.metrics_in_training,
            name=tower.tower_name,
            weight=tower.weight,
            uses_sample_weight=tower.use_sample_weight,
            space=space_options(
                label=tower.task_space_indicator_label,
                feature=tower.task_space_indicator_name,
                value=tower.task_space_indicator_value,
                inside=tower.in_task_space_weight,
                outside=tower.out_task_space_weight,
            ),
            previous=towers[number - 1].tower_name if number else None,
        )
        for number, tower in enumerate(towers)
    ]
