"""``model_class: "PLE"``: group ``all``, several tasks with experts of their own."""

from collections.abc import Mapping

from pydantic import Field
from torch import Tensor, nn

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
from fleetrec.nn.extraction import Extraction
from fleetrec.nn.mlp import Mlp

GROUP = "all"


class ExtractionNetwork(Message):
    """One layer of experts: of each task, and shared ones."""

    network_name: str = ""
    expert_num_per_task: int = Field(gt=0)
    share_num: int = Field(default=0, ge=0)
    task_expert_net: Dnn
    share_expert_net: Dnn | None = None


class PleMessage(Message):
    """``ple``."""

    extraction_networks: tuple[ExtractionNetwork, ...] = Field(min_length=1)
    task_towers: tuple[TaskTower, ...] = Field(min_length=1)
    l2_regularization: float = Field(default=1e-4, ge=0)


class Model(GroupModel):
    """Progressive layered extraction: layers of experts of each task, and experts for all.

    Tang et al., "Progressive Layered Extraction (PLE): A Novel Multi-Task Learning (MTL) Model for
    Personalized Recommendations", RecSys 2020.
    """

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        ple: PleMessage | None = None

    model_class = "PLE"
    message = "ple"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        options = needed(config.ple, "ple")
        scored = tasks_of(options.task_towers, config)
        super().__init__(config, l2=options.l2_regularization, tasks=scored)
        in_dim, layers = self.inputs.dim(GROUP), []
        last = len(options.extraction_networks) - 1
        for number, network in enumerate(options.extraction_networks):
            layer = _extraction(network, in_dim, len(scored), is_last=number == last)
            layers.append(layer)
            in_dim = layer.out_dim
        self.extraction = nn.ModuleList(layers)
        self.heads = TaskTowers(
            tower_layers(options.task_towers, in_dim),
            out_dims=[task.num_class for task in scored],
        )

    def scopes(self) -> Mapping[str, str]:
        """Return the user-visible names of parts of the network."""
        return tower_scopes("heads", self.scored_tasks)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return the outputs of every task, under its name."""
        x_BX = self.inputs.cat(batch, GROUP)
        own, shared = [x_BX] * len(self.scored_tasks), x_BX
        for layer in self.extraction:
            own, shared = layer(own, shared)
        return outputs_of(self.scored_tasks, self.heads(own))


def _extraction(
    network: ExtractionNetwork, in_dim: int, num_tasks: int, *, is_last: bool
) -> Extraction:
    if network.share_num and network.share_expert_net is None:
        raise ValueError("ple: extraction_networks with share_num need share_expert_net")
    if not network.share_num and not is_last:
        raise ValueError("ple: all extraction_networks but the last need share_num")

    def experts(dnn: Dnn | None, count: int) -> list[Mlp]:
        return [] if dnn is None else [mlp_of(dnn, in_dim) for _ in range(count)]

    return Extraction(
        in_dim,
        own=[
            experts(network.task_expert_net, network.expert_num_per_task) for _ in range(num_tasks)
        ],
        shared=experts(network.share_expert_net, network.share_num),
        is_last=is_last,
    )
