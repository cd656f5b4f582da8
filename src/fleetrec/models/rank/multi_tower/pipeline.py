"""``model_class: "MultiTower"``: an MLP for each group of features, and one over all of them."""

# Shape suffixes: B samples, X width.

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor, nn

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.message import Message, Opaque, later
from fleetrec.config.pipeline_dialect.model import Dnn, Tower
from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.group_model import GroupModel, mlp_of, needed
from fleetrec.nn.batch_norm import BatchNorm
from fleetrec.nn.mlp import scaled_linear


class MultiTowerMessage(Message):
    """``multi_tower``."""

    towers: tuple[Tower, ...] = Field(min_length=1)
    final_dnn: Dnn
    l2_regularization: float = Field(default=1e-4, ge=0)
    din_towers: tuple[Opaque, ...] = later(default=())
    bst_towers: tuple[Opaque, ...] = later(default=())


class Model(GroupModel):
    """Each group has batch normalisation and an MLP; a final MLP takes their outputs."""

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        multi_tower: MultiTowerMessage | None = None

    model_class = "MultiTower"
    message = "multi_tower"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        options = needed(config.multi_tower, "multi_tower")
        super().__init__(config, l2=options.l2_regularization)
        self._names = [tower.input for tower in options.towers]
        dims = [self.inputs.dim(name) for name in self._names]
        self.norms = nn.ModuleList(BatchNorm(dim) for dim in dims)
        towers = [mlp_of(tower.dnn, dim) for tower, dim in zip(options.towers, dims, strict=True)]
        self.towers = nn.ModuleList(towers)
        self.final = mlp_of(options.final_dnn, sum(tower.out_dim for tower in towers))
        self.out = scaled_linear(self.final.out_dim, config.num_class)

    def scopes(self) -> Mapping[str, str]:
        """Return the user-visible names of parts of the network."""
        towers = {f"towers.{number}": name for number, name in enumerate(self._names)}
        norms = {f"norms.{number}": f"{name}_fea_bn" for number, name in enumerate(self._names)}
        return {**towers, **norms, "final": "final_dnn", "out": "output"}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return logits and probabilities, or the predicted value of a regression."""
        parts = [
            tower(norm(self.inputs.cat(batch, name)))
            for name, norm, tower in zip(self._names, self.norms, self.towers, strict=True)
        ]
        return self.outputs(self.out(self.final(torch.cat(parts, dim=1))))
