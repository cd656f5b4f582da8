"""Several tasks over one shared layer."""

# Shape suffixes: B samples, X width.

import torch
from pydantic import Field
from torch import Tensor

from fleetrec.core.batch import Batch, Inputs
from fleetrec.models import base
from fleetrec.models.table_options import TableOptions
from fleetrec.models.task_inputs import TaskInputs
from fleetrec.models.task_towers import TaskTowers
from fleetrec.nn.mlp import Mlp


class Model(base.Model):
    """Shared bottom: all tasks use one layer; each has its own tower.

    Caruana, "Multitask Learning", Machine Learning 1997. The first sparse slots are the labels, one
    for each tower; the name of a task is its label without ``label_``.
    """

    class Config(TableOptions):
        """Hyper-parameters of the shared bottom."""

        feature_size: int | None = Field(
            default=None, gt=0, description="if given, must equal the number of dense values"
        )
        tower_nums: int = Field(default=2, gt=0, description="tasks, each with a tower")
        bottom_size: int = Field(default=117, gt=0, description="width of the shared layer")
        tower_size: int = Field(default=8, gt=0, description="width of the layer of a task")
        sparse_feature_dim: int = Field(default=9, gt=0, description="width of an embedding")

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        task_inputs = TaskInputs(
            config,
            inputs=inputs,
            num_tasks=config.tower_nums,
            dim=config.sparse_feature_dim,
            num_values=config.feature_size,
        )
        super().__init__(tasks=task_inputs.tasks)
        self.inputs = task_inputs
        self.bottom = Mlp(task_inputs.out_dim, (config.bottom_size,))
        self.heads = TaskTowers(
            [Mlp(config.bottom_size, (config.tower_size,)) for _ in self.tasks],
            out_dims=[1] * len(self.tasks),
        )

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit_<task>`` and ``predict_<task>``, the probability of the label."""
        shared_BX = self.bottom(torch.cat(self.inputs(batch), dim=1))
        return self.inputs.outputs(self.heads([shared_BX] * len(self.tasks)))
