"""``model_class: "ESMM"``: clicks, and conversions of clicks, learned on all samples."""

# Shape suffixes: B samples, X width, K classes.

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor, nn

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.message import Message
from fleetrec.config.pipeline_dialect.model import TaskTower, Tower
from fleetrec.config.pipeline_dialect.translate import metric_options
from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.group_model import GroupModel, mlp_of, needed
from fleetrec.models.task_towers import (
    TaskTowers,
    outputs_of,
    tasks_of,
    tower_layers,
    tower_scopes,
)
from fleetrec.tasks.conversion import ClickedTask, ConversionTask
from fleetrec.tasks.task import Task

GROUP = "all"
BOTH = "ctcvr"


class EsmmMessage(Message):
    """``esmm``: shared layers of groups, or group ``all``, and two tasks."""

    groups: tuple[Tower, ...] = ()
    ctr_tower: TaskTower
    cvr_tower: TaskTower
    l2_regularization: float = Field(default=1e-4, ge=0)

    @property
    def task_towers(self) -> tuple[TaskTower, ...]:
        """Return both tasks, conversions first, in the order in which labels are taken."""
        return (self.cvr_tower, self.ctr_tower)


class Model(GroupModel):
    """P(click and conversion) = P(click) P(conversion | click); both are learned on all samples.

    Ma et al., "Entire Space Multi-Task Model: An Effective Approach for Estimating Post-Click
    Conversion Rate", SIGIR 2018. The metrics of ``cvr_tower`` are computed for click and conversion
    on all samples, and for the conversion on clicked ones.
    """

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        esmm: EsmmMessage | None = None

    model_class = "ESMM"
    message = "esmm"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        options = needed(config.esmm, "esmm")
        conversion, click = tasks_of(options.task_towers, config)
        is_plain = click.loss_name == "classification" and (
            click.num_class,
            conversion.num_class,
        ) == (1, 1)
        if not is_plain or conversion.loss_name not in ("classification", "l2"):
            raise ValueError(
                "esmm: ctr_tower needs loss_type CLASSIFICATION, cvr_tower this or L2_LOSS, both "
                "with num_class 1"
            )
        metrics = metric_options(options.cvr_tower.metrics_set)
        tasks: list[Task] = [
            click,
            ConversionTask(click=click, conversion=conversion, name=BOTH, metrics=metrics),
            ClickedTask(
                click=click,
                conversion=conversion,
                name=f"{conversion.name}_masked",
                metrics=metrics,
            ),
        ]
        super().__init__(config, l2=options.l2_regularization, tasks=tasks)
        self._towers = (conversion, click)
        self._groups = [tower.input for tower in options.groups]
        shared = [mlp_of(tower.dnn, self.inputs.dim(tower.input)) for tower in options.groups]
        self.shared = nn.ModuleList(shared)
        width = sum(mlp.out_dim for mlp in shared) if shared else self.inputs.dim(GROUP)
        self.heads = TaskTowers(tower_layers(options.task_towers, width), out_dims=[1, 1])

    def scopes(self) -> Mapping[str, str]:
        """Return the user-visible names of parts of the network."""
        shared = {f"shared.{number}": name for number, name in enumerate(self._groups)}
        return {**shared, **tower_scopes("heads", self._towers)}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return the outputs of both tasks, and those of click and conversion."""
        parts = [
            mlp(self.inputs.cat(batch, name))
            for name, mlp in zip(self._groups, self.shared, strict=True)
        ]
        x_BX = torch.cat(parts, dim=1) if parts else self.inputs.cat(batch, GROUP)
        outputs = outputs_of(self._towers, self.heads([x_BX, x_BX]))
        conversion, click = self._towers
        kind = "probs" if conversion.loss_name == "classification" else "y"
        product_B = outputs[f"{kind}_{conversion.name}"] * outputs[f"probs_{click.name}"]
        return {**outputs, f"{kind}_{BOTH}": product_B}
