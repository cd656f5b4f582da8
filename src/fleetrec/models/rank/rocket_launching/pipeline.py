"""``model_class: "RocketLaunching"``: a large network teaches a small one while both learn."""

# Shape suffixes: B samples, X width, K classes.

from collections.abc import Iterator, Mapping
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.message import Message
from fleetrec.config.pipeline_dialect.model import Dnn
from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.group_model import LOSS, GroupModel, mlp_of, needed
from fleetrec.models.task_towers import outputs_of
from fleetrec.nn.mlp import Mlp, scaled_linear
from fleetrec.tasks.scored import ScoredTask

GROUP = "all"
BOOSTER, LIGHT = "booster", "light"
SIMILARITY_WEIGHT = 0.1


class RocketLaunchingMessage(Message):
    """``rocket_launching``."""

    share_dnn: Dnn | None = None
    booster_dnn: Dnn
    light_dnn: Dnn
    l2_regularization: float = Field(default=1e-4, ge=0)
    feature_based_distillation: bool = False
    feature_distillation_function: Literal["COSINE", "EUCLID"] = "COSINE"


class Model(GroupModel):
    """The logits of the small network follow those of the large one.

    Zhou et al., "Rocket Launching: A Universal and Efficient Framework for Training
    Well-performing Light Net", AAAI 2018. The gradient of the small network does not reach the
    shared layers, that of the difference not the large network. With
    ``feature_based_distillation`` hidden layers of equal width become similar, too.
    """

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        rocket_launching: RocketLaunchingMessage | None = None

    model_class = "RocketLaunching"
    message = "rocket_launching"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        options = needed(config.rocket_launching, "rocket_launching")
        tasks = [
            ScoredTask(
                label=config.labels[0],
                loss=config.loss,
                losses=config.losses,
                num_class=config.num_class,
                metrics=config.metrics,
                name=name,
            )
            for name in (BOOSTER, LIGHT)
        ]
        super().__init__(config, l2=options.l2_regularization, tasks=tasks)
        self._options = options
        width = self.inputs.dim(GROUP)
        self.shared = Mlp(width, ())
        if options.share_dnn is not None:
            self.shared = mlp_of(options.share_dnn, width)
        self.booster = mlp_of(options.booster_dnn, self.shared.out_dim)
        self.light = mlp_of(options.light_dnn, self.shared.out_dim)
        self.booster_out = scaled_linear(self.booster.out_dim, config.num_class)
        self.light_out = scaled_linear(self.light.out_dim, config.num_class)

    def scopes(self) -> Mapping[str, str]:
        """Return the user-visible names of parts of the network."""
        return {
            "shared": "share_dnn",
            "booster": "booster_dnn",
            "light": "light_dnn",
            "booster_out": "booster_output",
            "light_out": "light_output",
        }

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return the outputs of both networks, and in training the losses between them."""
        x_BX = self.shared(self.inputs.cat(batch, GROUP))
        booster, light = _hidden(self.booster, x_BX), _hidden(self.light, x_BX.detach())
        booster_BK = self.booster_out(booster[-1])
        light_BK = self.light_out(light[-1])
        outputs = outputs_of(self.scored_tasks, [booster_BK, light_BK])
        if not self.training:
            return outputs
        hint_B = (light_BK - booster_BK.detach()).square().mean(dim=1)
        losses = {f"{LOSS}hint_loss": hint_B}
        if self._options.feature_based_distillation:
            for number, loss_B in enumerate(self._distances(booster, light)):
                losses[f"{LOSS}similarity_{number}"] = loss_B
        return {**outputs, **losses}

    def _distances(self, booster: list[Tensor], light: list[Tensor]) -> Iterator[Tensor]:
        """Yield a loss per sample for each layer that the other network has in the same width."""
        for own_BX in light[1:]:
            for other_BX in booster[1:]:
                if other_BX.shape[1] != own_BX.shape[1]:
                    continue
                if self._options.feature_distillation_function == "COSINE":
                    similarity_B = functional.cosine_similarity(other_BX.detach(), own_BX, dim=1)
                    yield -SIMILARITY_WEIGHT * similarity_B
                else:
                    distance_B = torch.linalg.vector_norm(other_BX.detach() - own_BX, dim=1)
                    yield SIMILARITY_WEIGHT * distance_B
                break


def _hidden(mlp: Mlp, x_BX: Tensor) -> list[Tensor]:
    """Return the input and the outputs of all layers."""
    found = [x_BX]
    for layer in mlp:
        found.append(layer(found[-1]))
    return found
