"""``model_class: "DAT"``: two towers that also know what the other side looks like."""

# Shape suffixes: B samples, X width of a group, D width.

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.message import Message
from fleetrec.config.pipeline_dialect.model import Dnn
from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.group_model import LOSS, GroupModel, needed
from fleetrec.models.match.towers import VectorPair, VectorTower, check_widths
from fleetrec.models.match_scores import is_list_wise, match_task

USER_AUGMENT, ITEM_AUGMENT = "user_id_augment", "item_id_augment"


class DatTower(Message):
    """Layers over one of the two groups and its augmented vector."""

    id: str = ""
    dnn: Dnn


class DatMessage(Message):
    """``dat``."""

    user_tower: DatTower
    item_tower: DatTower
    l2_regularization: float = Field(default=1e-4, ge=0)
    simi_func: Literal["COSINE", "INNER_PRODUCT"] = "COSINE"
    ignore_in_batch_neg_sam: bool = False
    temperature: float = Field(default=1.0, gt=0)


class Model(GroupModel):
    """Each side has one more vector, which learns to equal the vectors of the other side.

    Yu et al., "A Dual Augmented Two-tower Model for Online Large-scale Recommendation", DLP-KDD
    2021. The vectors are the groups ``user_id_augment`` and ``item_id_augment``.
    """

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        dat: DatMessage | None = None

    model_class = "DAT"
    message = "dat"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        options = needed(config.dat, "dat")
        if config.groups and not is_list_wise(config):
            raise ValueError("DAT needs loss_type SOFTMAX_CROSS_ENTROPY")
        task = match_task(config, ignores_batch_items=options.ignore_in_batch_neg_sam)
        negatives = ["item", ITEM_AUGMENT] if config.has_negatives else []
        super().__init__(config, l2=options.l2_regularization, tasks=[task], negatives=negatives)
        widths = [self.inputs.dim(name) for name in ("user", USER_AUGMENT, "item", ITEM_AUGMENT)]
        self.user = VectorTower(options.user_tower.dnn, sum(widths[:2]), name="user_tower.dnn")
        self.item = VectorTower(options.item_tower.dnn, sum(widths[2:]), name="item_tower.dnn")
        check_widths(self.user.out_dim, self.item.out_dim, name="dat")
        if {widths[1], widths[3]} != {self.user.out_dim}:
            raise ValueError(
                f"dat: groups {USER_AUGMENT} and {ITEM_AUGMENT} must have the width of the towers, "
                f"{self.user.out_dim}, got {widths[1]} and {widths[3]}"
            )
        self.pair = VectorPair(
            config,
            options,
            scales=False,
            ignores_batch_items=options.ignore_in_batch_neg_sam,
        )

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return logits and probabilities, and the vectors of both towers."""
        own_user_BD = self.inputs.cat(batch, USER_AUGMENT)
        own_item_BD = self.inputs.cat(batch, ITEM_AUGMENT)
        user_BD = self.user(torch.cat([self.inputs.cat(batch, "user"), own_user_BD], dim=1))
        item_BD = self.item(torch.cat([self.inputs.cat(batch, "item"), own_item_BD], dim=1))
        user_BD, item_BD = self.pair.normalised(user_BD), self.pair.normalised(item_BD)
        outputs = self.pair.outputs(
            batch,
            user_BD,
            item_BD,
            negatives=lambda: self._negatives(batch),
            point_wise=self.outputs,
        )
        if not self.training:
            return outputs
        return {
            **outputs,
            f"{LOSS}amm_loss_u": (own_user_BD - item_BD.detach()).square().mean(dim=1),
            f"{LOSS}amm_loss_i": (own_item_BD - user_BD.detach()).square().mean(dim=1),
        }

    def _negatives(self, batch: Batch) -> Tensor:
        parts = [self.inputs.negatives(batch, name) for name in ("item", ITEM_AUGMENT)]
        vector_ND: Tensor = self.item(torch.cat(parts, dim=1))
        return vector_ND
