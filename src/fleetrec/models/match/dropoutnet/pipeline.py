"""``model_class: "DropoutNet"``: two towers that learn to do without preferences."""

# Shape suffixes: B samples, X width of a group, D width.

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.message import Message, Opaque, later
from fleetrec.config.pipeline_dialect.model import Dnn
from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.group_model import GroupModel, mlp_of, needed
from fleetrec.models.match.towers import VectorTower, check_widths

PARTS = ("content", "preference")


class DropoutNetMessage(Message):
    """``dropoutnet``."""

    user_content: Dnn | None = None
    user_preference: Dnn | None = None
    item_content: Dnn | None = None
    item_preference: Dnn | None = None
    user_tower: Dnn
    item_tower: Dnn
    l2_regularization: float = Field(default=0.0, ge=0)
    user_dropout_rate: float = Field(default=0.0, ge=0, lt=1)
    item_dropout_rate: float = Field(default=0.5, ge=0, lt=1)
    softmax_loss: Opaque | None = later()


class Side(nn.Module):
    """The tower of one side: layers over content and preferences, and layers over both."""

    def __init__(
        self, dnns: dict[str, tuple[Dnn | None, int]], tower: Dnn, *, rate: float, name: str
    ) -> None:
        super().__init__()
        missing = [part for part, (dnn, _) in dnns.items() if dnn is None]
        if missing or not dnns:
            wanted = missing[0] if missing else "content"
            raise ValueError(f"dropoutnet: {name} needs {name}_{wanted}, or no such group")
        self.parts = nn.ModuleDict(
            {part: mlp_of(dnn, dim) for part, (dnn, dim) in dnns.items() if dnn is not None}
        )
        width = sum(part.out_dim for part in self.parts.values())  # type: ignore[misc]
        self.tower = VectorTower(tower, width, name=f"dropoutnet: {name}_tower")
        self.rate = rate

    def forward(self, groups: dict[str, Tensor]) -> Tensor:
        """Return a normalised vector; in training the preferences of some samples are 0."""
        found = []
        for name, layers in self.parts.items():
            x_BX = groups[name]
            if name == "preference" and self.training and self.rate:
                kept_B1 = torch.rand(len(x_BX), 1, device=x_BX.device) >= self.rate
                x_BX = x_BX * kept_B1 / (1 - self.rate)
            found.append(layers(x_BX))
        return functional.normalize(self.tower(torch.cat(found, dim=1)), dim=1)


class Model(GroupModel):
    """Cosine similarity of a user and an item, for users and items that may be new.

    Volkovs, Yu and Poutanen, "DropoutNet: Addressing Cold Start in Recommender Systems", NIPS 2017.
    Groups are ``user_content``, ``user_preference``, ``item_content`` and ``item_preference``, of
    which each side needs one.
    """

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        dropoutnet: DropoutNetMessage | None = None

    model_class = "DropoutNet"
    message = "dropoutnet"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        options = needed(config.dropoutnet, "dropoutnet")
        if config.num_class != 1:
            raise ValueError(f"DropoutNet has one similarity, but num_class is {config.num_class}")
        super().__init__(config, l2=options.l2_regularization)
        self.user = self._side("user", options, rate=options.user_dropout_rate)
        self.item = self._side("item", options, rate=options.item_dropout_rate)
        check_widths(self.user.tower.out_dim, self.item.tower.out_dim, name="dropoutnet")

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return logits, which are similarities, probabilities, and the vectors of both sides."""
        user_BD, item_BD = (
            side({part: self.inputs.cat(batch, f"{name}_{part}") for part in side.parts})
            for name, side in (("user", self.user), ("item", self.item))
        )
        similarity_B1 = (user_BD * item_BD).sum(dim=1, keepdim=True)
        return {**self.outputs(similarity_B1), "user_emb": user_BD, "item_emb": item_BD}

    def _side(self, name: str, options: DropoutNetMessage, *, rate: float) -> Side:
        dnns = {
            part: (getattr(options, f"{name}_{part}"), self.inputs.dim(f"{name}_{part}"))
            for part in PARTS
            if f"{name}_{part}" in self.inputs
        }
        return Side(dnns, getattr(options, f"{name}_tower"), rate=rate, name=name)
