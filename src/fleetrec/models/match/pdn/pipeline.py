"""``model_class: "PDN"``: paths from a user over the items of a history to an item."""

# Shape suffixes: B samples, L elements of a history, X width.

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.message import Message
from fleetrec.config.pipeline_dialect.model import Dnn
from fleetrec.core.batch import Batch, Inputs
from fleetrec.embedding.collection import Sequence
from fleetrec.models.group_model import GroupModel, mlp_of, needed
from fleetrec.models.group_sequences import align, joined
from fleetrec.models.match.towers import VectorTower, check_widths
from fleetrec.nn.scaled_similarity import ScaledSimilarity

USER_TO_ITEM, ITEM, ITEM_TO_ITEM = "u2i_seq", "i_seq", "i2i_seq"
MAX_EXPONENT = 20.0  # of a score; a larger one would overflow


class PdnMessage(Message):
    """``pdn``."""

    user_dnn: Dnn
    item_dnn: Dnn
    u2i_dnn: Dnn
    trigger_dnn: Dnn
    i2i_dnn: Dnn
    sim_dnn: Dnn
    direct_user_dnn: Dnn | None = None
    direct_item_dnn: Dnn | None = None
    simi_func: Literal["COSINE", "INNER_PRODUCT"] = "COSINE"
    scale_simi: bool = True
    bias_dnn: Dnn | None = None
    item_id: str = ""
    l2_regularization: float = Field(default=1e-6, ge=0)


class Model(GroupModel):
    """P = 1 - exp(-s), s the sum over the history of exp(interest) exp(similarity), and more.

    Li et al., "Path-based Deep Network for Candidate Item Matching in Recommenders", SIGIR 2021.
    A direct network of user and item and a bias may be added to s.
    """

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        pdn: PdnMessage | None = None

    model_class = "PDN"
    message = "pdn"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        options = needed(config.pdn, "pdn")
        if config.loss != "classification" or config.num_class != 1:
            raise ValueError("PDN needs loss_type CLASSIFICATION with num_class 1")
        super().__init__(config, l2=options.l2_regularization)
        self._options = options
        user_dim, item_dim = self.inputs.dim("user"), self.inputs.dim("item")
        dims = {
            name: sum(self.inputs.sequence_dims(name))
            for name in (USER_TO_ITEM, ITEM, ITEM_TO_ITEM)
        }
        self.user, self.item = (
            mlp_of(options.user_dnn, user_dim),
            mlp_of(options.item_dnn, item_dim),
        )
        self.trigger = mlp_of(options.u2i_dnn, dims[USER_TO_ITEM] + dims[ITEM])
        self.similar = mlp_of(options.i2i_dnn, dims[ITEM])
        if (self.user.out_dim, self.item.out_dim) != (self.trigger.out_dim, self.similar.out_dim):
            raise ValueError("pdn: user_dnn and u2i_dnn, item_dnn and i2i_dnn must be equally wide")
        self.trigger_out = _score(options.trigger_dnn, self.user.out_dim, "trigger_dnn")
        width = 2 * self.item.out_dim + dims[ITEM_TO_ITEM]
        self.similar_out = _score(options.sim_dnn, width, "sim_dnn")
        self.direct: nn.ModuleDict | None = None
        if options.direct_user_dnn is not None and options.direct_item_dnn is not None:
            user = VectorTower(options.direct_user_dnn, user_dim, name="pdn: direct_user_dnn")
            item = VectorTower(options.direct_item_dnn, item_dim, name="pdn: direct_item_dnn")
            check_widths(user.out_dim, item.out_dim, name="pdn: direct")
            scale = ScaledSimilarity() if options.scale_simi else nn.Identity()
            self.direct = nn.ModuleDict({"user": user, "item": item, "scale": scale})
        self.bias: VectorTower | None = None
        if options.bias_dnn is not None:
            self.bias = _score(options.bias_dnn, self.inputs.dim("bias"), "bias_dnn")

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return logits and probabilities."""
        user_BX, item_BX = self.inputs.cat(batch, "user"), self.inputs.cat(batch, "item")
        found = [self._steps(batch, name) for name in (USER_TO_ITEM, ITEM, ITEM_TO_ITEM)]
        actions_BLX, items_BLX, relations_BLX = align(found)
        steps = Sequence(x_BLD=items_BLX, lengths_B=found[0].lengths_B)
        trigger_BLX = self.trigger(torch.cat([actions_BLX, items_BLX], dim=2))
        trigger_BLX = trigger_BLX + self.user(user_BX).unsqueeze(1)
        target_B1X = self.item(item_BX).unsqueeze(1)
        cross_BLX = self.similar(items_BLX) * target_B1X
        target_BLX = target_B1X.expand_as(cross_BLX)
        similar_BLX = torch.cat([cross_BLX, relations_BLX, target_BLX], dim=2)
        scores_BL = self.trigger_out(trigger_BLX) + self.similar_out(similar_BLX)
        paths_BL = scores_BL.squeeze(2).clamp(max=MAX_EXPONENT).exp() * steps.mask_BL
        sum_B1 = paths_BL.sum(dim=1, keepdim=True)
        if self.direct is not None:
            sum_B1 = sum_B1 + self._direct(self.direct, user_BX, item_BX)
        if self.bias is not None:
            sum_B1 = sum_B1 + functional.softplus(self.bias(self.inputs.cat(batch, "bias")))
        # logit of 1 - exp(-s): log(1 - exp(-s)) + s
        sum_B1 = sum_B1.clamp(min=1e-6)
        return self.outputs(torch.log(-torch.expm1(-sum_B1)) + sum_B1)

    def _steps(self, batch: Batch, group: str) -> Sequence:
        return joined(self.inputs.sequences(batch, group))

    def _direct(self, layers: nn.ModuleDict, user_BX: Tensor, item_BX: Tensor) -> Tensor:
        user_BX, item_BX = layers["user"](user_BX), layers["item"](item_BX)
        if self._options.simi_func == "COSINE":
            user_BX, item_BX = functional.normalize(user_BX), functional.normalize(item_BX)
        product_B1 = (user_BX * item_BX).sum(dim=1, keepdim=True)
        return functional.softplus(layers["scale"](product_B1))


def _score(dnn: Dnn, width: int, name: str) -> VectorTower:
    tower = VectorTower(dnn, width, name=f"pdn: {name}")
    if tower.out_dim != 1:
        raise ValueError(f"pdn: {name} must end in width 1, got {tower.out_dim}")
    return tower
