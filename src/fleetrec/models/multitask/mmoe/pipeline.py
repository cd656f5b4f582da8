"""``model_class: "MMoE"``: group ``all``, several tasks."""

# Shape suffixes: B samples, X width.

from collections.abc import Mapping

from pydantic import Field
from torch import Tensor

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.message import Message
from fleetrec.config.pipeline_dialect.model import Dnn, TaskTower
from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.group_model import GroupModel, mlp_of, needed
from fleetrec.models.task_towers import (
    TaskTowers,
    outputs_of,
    tasks_of,
    tower_layers,
    tower_scopes,
)
from fleetrec.nn.expert_mixture import ExpertMixture

GROUP = "all"


class ExpertTower(Message):
    """One expert."""

    expert_name: str = ""
    dnn: Dnn


class MmoeMessage(Message):
    """``mmoe``: identical experts, or a list of them."""

    experts: tuple[ExpertTower, ...] = ()
    expert_dnn: Dnn | None = None
    num_expert: int = Field(default=0, ge=0)
    task_towers: tuple[TaskTower, ...] = Field(min_length=1)
    l2_regularization: float = Field(default=1e-4, ge=0)

    def dnns(self) -> list[Dnn]:
        """Return the layers of every expert."""
        if self.expert_dnn is not None:
            return [self.expert_dnn] * self.num_expert
        return [expert.dnn for expert in self.experts]


class Model(GroupModel):
    """Experts shared by all tasks; each task has its own gate and layers."""

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        mmoe: MmoeMessage | None = None

    model_class = "MMoE"
    message = "mmoe"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        options = needed(config.mmoe, "mmoe")
        tasks = tasks_of(options.task_towers, config)
        super().__init__(config, l2=options.l2_regularization, tasks=tasks)
        in_dim = self.inputs.dim(GROUP)
        dnns = options.dnns()
        if not dnns:
            raise ValueError("mmoe needs expert_dnn with num_expert of at least 1, or experts")
        experts = [mlp_of(dnn, in_dim) for dnn in dnns]
        self.mixture = ExpertMixture(in_dim, experts, num_tasks=len(tasks))
        self.heads = TaskTowers(
            tower_layers(options.task_towers, self.mixture.out_dim),
            out_dims=[task.num_class for task in tasks],
        )
        self._scored = tuple(tasks)

    def scopes(self) -> Mapping[str, str]:
        """Return the user-visible names of parts of the network."""
        experts = {
            f"mixture.experts.{number}": f"expert_{number}"
            for number in range(len(self.mixture.experts))
        }
        gates = {f"mixture.gates.{i}": f"gate_{i}" for i in range(len(self.tasks))}
        return {**experts, **gates, **tower_scopes("heads", self._scored)}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return the outputs of every task, under its name."""
        logits = self.heads(self.mixture(self.inputs.cat(batch, GROUP)))
        return outputs_of(self._scored, logits)
