"""``model_class: "MultiTowerRecall"``: a user and an item tower, and layers over both."""

# Shape suffixes: B samples, X width.

import torch
from pydantic import Field
from torch import Tensor

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.message import Message
from fleetrec.config.pipeline_dialect.model import Dnn
from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.group_model import GroupModel, mlp_of, needed
from fleetrec.nn.mlp import scaled_linear


class RecallTower(Message):
    """Layers over one of the two groups."""

    id: str = ""
    dnn: Dnn


class MultiTowerRecallMessage(Message):
    """``multi_tower_recall``."""

    user_tower: RecallTower
    item_tower: RecallTower
    final_dnn: Dnn
    l2_regularization: float = Field(default=1e-4, ge=0)
    item_id: str = ""
    ignore_in_batch_neg_sam: bool = False


class Model(GroupModel):
    """An MLP over the vectors of the user and of the item of the same sample.

    Sampled items are not used: their labels are not known, as in EasyRec, which computes the logit
    of the sample's own item only.
    """

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        multi_tower_recall: MultiTowerRecallMessage | None = None

    model_class = "MultiTowerRecall"
    message = "multi_tower_recall"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        options = needed(config.multi_tower_recall, "multi_tower_recall")
        super().__init__(config, l2=options.l2_regularization)
        self.user = mlp_of(options.user_tower.dnn, self.inputs.dim("user"))
        self.item = mlp_of(options.item_tower.dnn, self.inputs.dim("item"))
        self.final = mlp_of(options.final_dnn, self.user.out_dim + self.item.out_dim)
        self.out = scaled_linear(self.final.out_dim, config.num_class)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return logits and probabilities."""
        parts = [
            self.user(self.inputs.cat(batch, "user")),
            self.item(self.inputs.cat(batch, "item")),
        ]
        return self.outputs(self.out(self.final(torch.cat(parts, dim=1))))
