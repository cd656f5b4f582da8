"""``model_class: "DSSM_SENet"``: groups ``user`` and ``item``, whose features have weights."""

# Shape suffixes: B samples, D width.

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.layers import SenetMessage
from fleetrec.config.pipeline_dialect.message import Message
from fleetrec.config.pipeline_dialect.model import Dnn
from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.group_model import GroupModel, needed
from fleetrec.models.match.towers import VectorPair, VectorTower, check_widths
from fleetrec.models.match_scores import match_task
from fleetrec.nn.field_gates import FieldGates


class SenetTower(Message):
    """Weights of the features of one of the two groups, and layers over them."""

    id: str = ""
    senet: SenetMessage = SenetMessage()
    dnn: Dnn


class DssmSenetMessage(Message):
    """``dssm_senet``."""

    user_tower: SenetTower
    item_tower: SenetTower
    l2_regularization: float = Field(default=1e-4, ge=0)
    simi_func: Literal["COSINE", "INNER_PRODUCT"] = "COSINE"
    scale_simi: bool = True
    temperature: float = Field(default=1.0, gt=0)
    item_id: str = ""
    ignore_in_batch_neg_sam: bool = False


class Model(GroupModel):
    """DSSM in which both towers begin with learned weights of their features."""

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        dssm_senet: DssmSenetMessage | None = None

    model_class = "DSSM_SENet"
    message = "dssm_senet"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        options = needed(config.dssm_senet, "dssm_senet")
        task = match_task(config, ignores_batch_items=options.ignore_in_batch_neg_sam)
        negatives = ["item"] if config.has_negatives else []
        super().__init__(config, l2=options.l2_regularization, tasks=[task], negatives=negatives)
        towers = {"user": options.user_tower, "item": options.item_tower}
        self.gates = nn.ModuleDict({name: self._gates(name, one) for name, one in towers.items()})
        self.towers = nn.ModuleDict(
            {
                name: VectorTower(one.dnn, self.inputs.dim(name), name=f"{name}_tower.dnn")
                for name, one in towers.items()
            }
        )
        dims = [one.dnn.hidden_units[-1] for one in towers.values()]
        check_widths(*dims, name="dssm_senet")
        self.pair = VectorPair(
            config,
            options,
            scales=options.scale_simi,
            ignores_batch_items=options.ignore_in_batch_neg_sam,
        )

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return logits and probabilities, and the vectors of both towers."""
        return self.pair.outputs(
            batch,
            self.pair.normalised(self._vector("user", self.inputs.cat(batch, "user"))),
            self.pair.normalised(self._vector("item", self.inputs.cat(batch, "item"))),
            negatives=lambda: self._vector("item", self.inputs.negatives(batch, "item")),
            point_wise=self.outputs,
        )

    def _gates(self, group: str, tower: SenetTower) -> FieldGates:
        return FieldGates(
            self.inputs.dims(group),
            num_groups=tower.senet.num_squeeze_group,
            reduction_ratio=tower.senet.reduction_ratio,
            skip=tower.senet.use_skip_connection,
            norm=tower.senet.use_output_layer_norm,
        )

    def _vector(self, group: str, x_BX: Tensor) -> Tensor:
        fields = torch.split(x_BX, list(self.inputs.dims(group)), dim=1)
        vector_BD: Tensor = self.towers[group](self.gates[group](fields))
        return vector_BD
