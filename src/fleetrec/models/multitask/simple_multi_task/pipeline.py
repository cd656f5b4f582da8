"""``model_class: "SimpleMultiTask"``: group ``all``, several tasks that share only tables."""

from collections.abc import Mapping

from pydantic import Field
from torch import Tensor

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.message import Message
from fleetrec.config.pipeline_dialect.model import TaskTower
from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.group_model import GroupModel, needed
from fleetrec.models.task_towers import (
    TaskTowers,
    outputs_of,
    tasks_of,
    tower_layers,
    tower_scopes,
)

GROUP = "all"


class SimpleMultiTaskMessage(Message):
    """``simple_multi_task``."""

    task_towers: tuple[TaskTower, ...] = Field(min_length=1)
    l2_regularization: float = Field(default=1e-4, ge=0)


class Model(GroupModel):
    """Each task has layers of its own over the same vectors."""

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        simple_multi_task: SimpleMultiTaskMessage | None = None

    model_class = "SimpleMultiTask"
    message = "simple_multi_task"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        options = needed(config.simple_multi_task, "simple_multi_task")
        scored = tasks_of(options.task_towers, config)
        super().__init__(config, l2=options.l2_regularization, tasks=scored)
        self.heads = TaskTowers(
            tower_layers(options.task_towers, self.inputs.dim(GROUP)),
            out_dims=[task.num_class for task in scored],
        )

    def scopes(self) -> Mapping[str, str]:
        """Return the user-visible names of parts of the network."""
        return tower_scopes("heads", self.scored_tasks)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return the outputs of every task, under its name."""
        x_BX = self.inputs.cat(batch, GROUP)
        return outputs_of(self.scored_tasks, self.heads([x_BX] * len(self.scored_tasks)))
