"""``model_class: "DSSM"``: groups ``user`` and ``item``, and the similarity of their vectors."""

# Shape suffixes: B samples, D width.

from collections.abc import Mapping
from typing import Literal

from pydantic import Field
from torch import Tensor

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.message import Message, later
from fleetrec.config.pipeline_dialect.model import Dnn
from fleetrec.core.batch import Batch, Inputs
from fleetrec.core.tower_names import ITEM, USER
from fleetrec.models.group_model import GroupModel, needed
from fleetrec.models.match.towers import VectorPair, VectorTower, check_widths
from fleetrec.models.match_scores import match_task
from fleetrec.models.towers import Tower


class DssmTower(Message):
    """Layers over one of the two groups; the last of them is linear."""

    id: str = ""
    dnn: Dnn


class DssmMessage(Message):
    """``dssm``."""

    user_tower: DssmTower
    item_tower: DssmTower
    l2_regularization: float = Field(default=1e-4, ge=0)
    simi_func: Literal["COSINE", "INNER_PRODUCT"] = "COSINE"
    scale_simi: bool = True
    temperature: float = Field(default=1.0, gt=0)
    item_id: str = ""
    ignore_in_batch_neg_sam: bool = False
    hist_seq_masks: tuple[str, ...] = later(default=())


class Model(GroupModel):
    """Two towers whose vectors are compared.

    Huang et al., "Learning Deep Structured Semantic Models for Web Search using Clickthrough
    Data", CIKM 2013. A loss of SOFTMAX_CROSS_ENTROPY compares a user with all items of the batch,
    other losses with the item of the same sample.
    """

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        dssm: DssmMessage | None = None

    model_class = "DSSM"
    message = "dssm"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        options = needed(config.dssm, "dssm")
        task = match_task(config, ignores_batch_items=options.ignore_in_batch_neg_sam)
        negatives = ["item"] if config.has_negatives else []
        super().__init__(config, l2=options.l2_regularization, tasks=[task], negatives=negatives)
        self.user = VectorTower(
            options.user_tower.dnn, self.inputs.dim("user"), name="dssm: user_tower.dnn"
        )
        self.item = VectorTower(
            options.item_tower.dnn, self.inputs.dim("item"), name="dssm: item_tower.dnn"
        )
        check_widths(self.user.out_dim, self.item.out_dim, name="dssm")
        self.pair = VectorPair(
            config,
            options,
            scales=options.scale_simi,
            ignores_batch_items=options.ignore_in_batch_neg_sam,
        )

    def scopes(self) -> Mapping[str, str]:
        """Return the user-visible names of parts of the network."""
        return {
            "user.mlp": "user_tower",
            "item.mlp": "item_tower",
            "user.out": "user_tower/dnn_out",
            "item.out": "item_tower/dnn_out",
        }

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return logits and probabilities or similarities, and the vectors of both towers."""
        return self.pair.outputs(
            batch,
            self._user_vectors(batch),
            self._item_vectors(batch),
            negatives=lambda: self.item(self.inputs.negatives(batch, "item")),
            point_wise=self.outputs,
        )

    def recall_towers(self) -> Mapping[str, Tower]:
        """Return the towers of users and items."""
        return {
            USER: self.inputs.tower("user", output="user_emb", compute=self._user_vectors),
            ITEM: self.inputs.tower("item", output="item_emb", compute=self._item_vectors),
        }

    def _user_vectors(self, batch: Batch) -> Tensor:
        return self.pair.normalised(self.user(self.inputs.cat(batch, "user")))

    def _item_vectors(self, batch: Batch) -> Tensor:
        return self.pair.normalised(self.item(self.inputs.cat(batch, "item")))
