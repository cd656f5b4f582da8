"""``model_class: "DSSM"``: groups ``user`` and ``item``, and the similarity of their vectors."""

# Shape suffixes: B samples, D width.

from collections.abc import Mapping
from typing import Literal

from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.message import Message, later
from fleetrec.config.pipeline_dialect.model import Dnn
from fleetrec.core.batch import Batch, Inputs
from fleetrec.core.tower_names import ITEM, USER
from fleetrec.models.group_model import GroupModel, mlp_of, needed, task_of
from fleetrec.models.towers import Tower
from fleetrec.nn.mlp import Mlp, scaled_linear
from fleetrec.nn.scaled_similarity import ScaledSimilarity
from fleetrec.tasks.in_batch import InBatchTask
from fleetrec.tasks.task import Task


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
    item_id: str = later(default="")
    ignore_in_batch_neg_sam: bool = later(default=False)
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
        self._in_batch = config.loss == "softmax"
        task: Task = (
            InBatchTask(label=config.labels[0], metrics=config.metrics)
            if self._in_batch
            else task_of(config)
        )
        if config.num_class != 1:
            raise ValueError(f"DSSM has one similarity, but num_class is {config.num_class}")
        super().__init__(config, l2=options.l2_regularization, tasks=[task])
        self._options = options
        self.user, self.user_out = self._tower("user", options.user_tower.dnn)
        self.item, self.item_out = self._tower("item", options.item_tower.dnn)
        if self.user_out.out_features != self.item_out.out_features:
            raise ValueError(
                "dssm: user_tower and item_tower must end in the same width, got "
                f"{self.user_out.out_features} and {self.item_out.out_features}"
            )
        self.scale = ScaledSimilarity() if options.scale_simi else nn.Identity()

    def scopes(self) -> Mapping[str, str]:
        """Return the user-visible names of parts of the network."""
        return {
            "user": "user_tower",
            "item": "item_tower",
            "user_out": "user_tower/dnn_out",
            "item_out": "item_tower/dnn_out",
        }

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return logits and probabilities or similarities, and the vectors of both towers."""
        user_BD, item_BD = self._user_vectors(batch), self._item_vectors(batch)
        vectors = {"user_emb": user_BD, "item_emb": item_BD}
        if self._in_batch:
            similarity_BB = self.scale(user_BD @ item_BD.T) / self._options.temperature
            return {"similarity": similarity_BB, **vectors}
        similarity_B1 = self.scale((user_BD * item_BD).sum(dim=1, keepdim=True))
        return {**self.outputs(similarity_B1 / self._options.temperature), **vectors}

    def recall_towers(self) -> Mapping[str, Tower]:
        """Return the towers of users and items."""
        return {
            USER: self.inputs.tower("user", output="user_emb", compute=self._user_vectors),
            ITEM: self.inputs.tower("item", output="item_emb", compute=self._item_vectors),
        }

    def _user_vectors(self, batch: Batch) -> Tensor:
        return self._vector(self.user, self.user_out, self.inputs.cat(batch, "user"))

    def _item_vectors(self, batch: Batch) -> Tensor:
        return self._vector(self.item, self.item_out, self.inputs.cat(batch, "item"))

    def _tower(self, group: str, dnn: Dnn) -> tuple[Mlp, nn.Linear]:
        """Return all layers but the last, and the last."""
        *hidden, last = dnn.hidden_units
        if last == 0:
            raise ValueError(f"dssm: {group}_tower.dnn needs hidden_units above 0")
        in_dim = self.inputs.dim(group)
        mlp = Mlp(in_dim, ())
        if hidden:
            ratios = dnn.dropout_ratio[:-1]
            shorter = {"hidden_units": tuple(hidden), "dropout_ratio": ratios}
            mlp = mlp_of(dnn.model_copy(update=shorter), in_dim)
        return mlp, scaled_linear(mlp.out_dim, last)

    def _vector(self, mlp: Mlp, out: nn.Linear, x_BX: Tensor) -> Tensor:
        vector_BD: Tensor = out(mlp(x_BX))
        if self._options.simi_func == "COSINE":
            return functional.normalize(vector_BD, dim=1)
        return vector_BD
