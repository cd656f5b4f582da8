"""Several tasks over shared experts."""

# Shape suffixes: B samples.

import torch
from pydantic import Field
from torch import Tensor

from fleetrec.core.batch import Batch, Inputs
from fleetrec.models import base
from fleetrec.models.table_options import TableOptions
from fleetrec.models.task_inputs import TaskInputs
from fleetrec.models.task_towers import TaskTowers
from fleetrec.nn.expert_mixture import ExpertMixture
from fleetrec.nn.mlp import Mlp


class Model(base.Model):
    """MMoE: experts shared by all tasks; each task has its own gate and tower.

    Ma et al., "Modeling Task Relationships in Multi-task Learning with Multi-gate
    Mixture-of-Experts", KDD 2018. The first sparse slots are the labels, one for each gate; the
    name of a task is its label without ``label_``.
    """

    class Config(TableOptions):
        """Hyper-parameters of MMoE."""

        feature_size: int | None = Field(
            default=None, gt=0, description="if given, must equal the number of dense values"
        )
        gate_num: int = Field(default=2, gt=0, description="tasks, each with a gate")
        expert_num: int = Field(default=8, gt=0, description="experts")
        expert_size: int = Field(default=16, gt=0, description="width of an expert")
        tower_size: int = Field(default=8, gt=0, description="width of the layer of a task")
        sparse_feature_dim: int = Field(default=9, gt=0, description="width of an embedding")

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        task_inputs = TaskInputs(
            config,
            inputs=inputs,
            num_tasks=config.gate_num,
            dim=config.sparse_feature_dim,
            num_values=config.feature_size,
        )
        super().__init__(tasks=task_inputs.tasks)
        self.inputs = task_inputs
        in_dim = task_inputs.out_dim
        experts = [Mlp(in_dim, (config.expert_size,)) for _ in range(config.expert_num)]
        self.mixture = ExpertMixture(in_dim, experts, num_tasks=config.gate_num)
        self.heads = TaskTowers(
            [Mlp(config.expert_size, (config.tower_size,)) for _ in self.tasks],
            out_dims=[1] * config.gate_num,
        )

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit_<task>`` and ``predict_<task>``, the probability of the label."""
        mixed = self.mixture(torch.cat(self.inputs(batch), dim=1))
        return self.inputs.outputs(self.heads(mixed))
