"""``model_class: "DCN"``: a cross network and an MLP in parallel, and an MLP over both."""

# Shape suffixes: B samples, X width.

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.message import Message
from fleetrec.config.pipeline_dialect.model import Dnn, Tower
from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.group_model import GroupModel, mlp_of, needed
from fleetrec.nn.mlp import scaled_linear
from fleetrec.nn.vector_cross import VectorCross


class CrossTower(Message):
    """Crosses of one feature group."""

    input: str
    cross_num: int = Field(default=3, gt=0)


class DcnMessage(Message):
    """``dcn``."""

    deep_tower: Tower
    cross_tower: CrossTower
    final_dnn: Dnn
    l2_regularization: float = Field(default=1e-4, ge=0)


class Model(GroupModel):
    """The layers of rank/dcn over groups of features."""

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        dcn: DcnMessage | None = None

    model_class = "DCN"
    message = "dcn"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        options = needed(config.dcn, "dcn")
        super().__init__(config, l2=options.l2_regularization)
        self._deep, self._cross = options.deep_tower.input, options.cross_tower.input
        cross_dim = self.inputs.dim(self._cross)
        self.deep = mlp_of(options.deep_tower.dnn, self.inputs.dim(self._deep))
        self.cross = VectorCross(cross_dim, num_layers=options.cross_tower.cross_num)
        self.final = mlp_of(options.final_dnn, self.deep.out_dim + cross_dim)
        self.out = scaled_linear(self.final.out_dim, config.num_class)

    def scopes(self) -> Mapping[str, str]:
        """Return the user-visible names of parts of the network."""
        return {"deep": "deep_tower", "final": "final_dnn", "out": "output"}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return logits and probabilities, or the predicted value of a regression."""
        deep_BX = self.deep(self.inputs.cat(batch, self._deep))
        cross_BX = self.cross(self.inputs.cat(batch, self._cross))
        return self.outputs(self.out(self.final(torch.cat([deep_BX, cross_BX], dim=1))))
