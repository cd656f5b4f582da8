"""What each of several tasks has for itself: layers, a label, a loss, metrics."""

# Shape suffixes: B samples, X width.

from collections.abc import Sequence

from torch import Tensor, nn

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.model import TaskTower
from fleetrec.config.pipeline_dialect.translate import loss_name, metric_options
from fleetrec.models.group_model import mlp_of
from fleetrec.nn.mlp import Mlp, scaled_linear
from fleetrec.tasks.scored import ScoredTask


class TaskTowers(nn.Module):
    """One tower per task: layers of its own and the last one."""

    def __init__(
        self, towers: Sequence[TaskTower], tasks: Sequence[ScoredTask], *, in_dim: int
    ) -> None:
        super().__init__()
        layers = [
            Mlp(in_dim, ()) if tower.dnn is None else mlp_of(tower.dnn, in_dim) for tower in towers
        ]
        self._tasks = tuple(tasks)
        self.layers = nn.ModuleList(layers)
        self.outs = nn.ModuleList(
            scaled_linear(layer.out_dim, task.num_class)
            for layer, task in zip(layers, tasks, strict=True)
        )

    def scopes(self, prefix: str) -> dict[str, str]:
        """Return by what names users know the towers."""
        names = [task.name for task in self._tasks]
        layers = {f"{prefix}.layers.{number}": name for number, name in enumerate(names)}
        outs = {f"{prefix}.outs.{number}": f"output_{n}" for number, n in enumerate(names)}
        return {**layers, **outs}

    def forward(self, inputs: Sequence[Tensor]) -> dict[str, Tensor]:
        """Return the outputs of all tasks for one x_BX each."""
        outputs: dict[str, Tensor] = {}
        parts = zip(self._tasks, self.layers, self.outs, inputs, strict=True)
        for task, layers, out, x_BX in parts:
            outputs |= task.outputs(out(layers(x_BX)))
        return outputs


def tasks_of(towers: Sequence[TaskTower], config: GroupModelOptions) -> list[ScoredTask]:
    """Return the tasks; a tower without a label takes the one at its place."""
    if len(config.labels) < len(towers) and not all(tower.label_name for tower in towers):
        raise ValueError(
            f"{len(towers)} task_towers need as many label_fields, got {len(config.labels)}"
        )
    return [
        ScoredTask(
            label=tower.label_name or config.labels[number],
            loss=loss_name(tower.loss_type),
            num_class=tower.num_class,
            metrics=metric_options(tower.metrics_set),
            name=tower.tower_name,
            weight=tower.weight,
            uses_sample_weight=tower.use_sample_weight,
        )
        for number, tower in enumerate(towers)
    ]
