"""``model_class: "MIND"``: groups ``hist``, ``user`` and ``item``; a user has several vectors."""

# Shape suffixes: B samples, L elements, K interests, D width, X any width.

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.message import Message, later
from fleetrec.config.pipeline_dialect.model import Dnn
from fleetrec.core.batch import Batch, Inputs
from fleetrec.embedding.collection import Sequence
from fleetrec.models.group_model import GroupModel, mlp_of, needed
from fleetrec.models.group_sequences import align
from fleetrec.models.match.towers import VectorPair, VectorTower, check_widths
from fleetrec.models.match_scores import match_task
from fleetrec.nn.batch_norm import BatchNorm
from fleetrec.nn.interest_capsules import InterestCapsules
from fleetrec.nn.mlp import Mlp

HISTORY = "hist"
HARD = 100  # of simi_pow, from which only the best interest counts


class Capsule(Message):
    """``capsule_config``."""

    max_k: int = Field(default=5, gt=0)
    max_seq_len: int = Field(gt=0)
    high_dim: int = Field(gt=0)
    num_iters: int = Field(default=3, gt=0)
    routing_logits_scale: float = Field(default=20.0, ge=0)
    routing_logits_stddev: float = Field(default=1.0, ge=0)
    squash_pow: float = 1.0
    scale_ratio: float = 1.0
    const_caps_num: bool = False


class MindMessage(Message):
    """``mind``."""

    pre_capsule_dnn: Dnn | None = None
    user_dnn: Dnn
    concat_dnn: Dnn
    user_seq_combine: Literal["CONCAT", "SUM"] = "SUM"
    item_dnn: Dnn
    capsule_config: Capsule
    simi_pow: float = Field(default=10.0, gt=0)
    simi_func: Literal["COSINE", "INNER_PRODUCT"] = "COSINE"
    scale_simi: bool = True
    l2_regularization: float = Field(default=1e-4, ge=0)
    time_id_fea: str = ""
    item_id: str = ""
    ignore_in_batch_neg_sam: bool = False
    max_interests_simi: float = later(default=1.0)

    @property
    def temperature(self) -> float:
        """Return 1: similarities are not divided."""
        return 1.0


class Model(GroupModel):
    """The history becomes several interests; the item of a sample chooses between them.

    Li et al., "Multi-Interest Network with Dynamic Routing for Recommendation at Tmall", CIKM 2019.
    """

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        mind: MindMessage | None = None

    model_class = "MIND"
    message = "mind"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        options = needed(config.mind, "mind")
        task = match_task(config, ignores_batch_items=options.ignore_in_batch_neg_sam)
        negatives = ["item"] if config.has_negatives else []
        super().__init__(config, l2=options.l2_regularization, tasks=[task], negatives=negatives)
        self._options = options
        width = self._history_dim()
        self.before = Mlp(width, ())
        if options.pre_capsule_dnn is not None:
            self.before = mlp_of(options.pre_capsule_dnn, width)
        capsule = options.capsule_config
        self.capsules = InterestCapsules(
            self.before.out_dim,
            num_interests=capsule.max_k,
            length=capsule.max_seq_len,
            out_dim=capsule.high_dim,
            num_rounds=capsule.num_iters,
            scale=capsule.routing_logits_scale,
            spread=capsule.routing_logits_stddev,
            power=capsule.squash_pow,
            ratio=capsule.scale_ratio,
            constant=capsule.const_caps_num,
        )
        self.user_norm = BatchNorm(self.inputs.dim("user"))
        self.user = mlp_of(options.user_dnn, self.inputs.dim("user"))
        self.both = VectorTower(
            options.concat_dnn, capsule.high_dim + self.user.out_dim, name="mind: concat_dnn"
        )
        self.item = VectorTower(options.item_dnn, self.inputs.dim("item"), name="mind: item_dnn")
        check_widths(self.both.out_dim, self.item.out_dim, name="mind: concat_dnn and item_dnn")
        self.pair = VectorPair(
            config,
            options,
            scales=options.scale_simi,
            ignores_batch_items=options.ignore_in_batch_neg_sam,
        )

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return logits and probabilities, the item's vector and all vectors of the user."""
        history = self._history(batch)
        interests_BKD, kept_BK = self.capsules(history.x_BLD, history.lengths_B)
        user_BX = self.user(self.user_norm(self.inputs.cat(batch, "user")))
        user_BKX = user_BX.unsqueeze(1).expand(-1, interests_BKD.shape[1], -1)
        vectors_BKD = self.pair.normalised(self.both(torch.cat([interests_BKD, user_BKX], dim=2)))
        vectors_BKD = vectors_BKD * kept_BK.unsqueeze(2)
        item_BD = self.pair.normalised(self.item(self.inputs.cat(batch, "item")))
        outputs = self.pair.outputs(
            batch,
            self._chosen(vectors_BKD, kept_BK, item_BD),
            item_BD,
            negatives=lambda: self.item(self.inputs.negatives(batch, "item")),
            point_wise=self.outputs,
        )
        return {**outputs, "user_interests": vectors_BKD}

    def _chosen(self, vectors_BKD: Tensor, kept_BK: Tensor, item_BD: Tensor) -> Tensor:
        """Return the mean of the vectors, weighted by their similarity to the item."""
        scores_BK = (vectors_BKD @ item_BD.unsqueeze(2)).squeeze(2) * self._options.simi_pow
        scores_BK = scores_BK.masked_fill(~kept_BK, torch.finfo(scores_BK.dtype).min)
        shares_BK = torch.softmax(scores_BK, dim=1)
        if self._options.simi_pow >= HARD:
            best_B1 = scores_BK.argmax(dim=1, keepdim=True)
            places_K = torch.arange(shares_BK.shape[1], device=best_B1.device)
            shares_BK = (places_K == best_B1).to(shares_BK.dtype)
        return (shares_BK.unsqueeze(2) * vectors_BKD).sum(dim=1)

    def _places(self) -> tuple[list[int], int | None]:
        """Return which sequences are elements, and which is about time."""
        group = self.inputs.options.get(HISTORY)
        features = () if group is None else group.features
        names = [one.name for one in features if one.sequence is not None]
        if not names:
            raise ValueError(f"group {HISTORY} needs SequenceFeature, as in tag lists")
        time = self._options.time_id_fea
        if time and time not in names:
            raise ValueError(f"mind: time_id_fea {time!r} is not in group {HISTORY}")
        places = [place for place, name in enumerate(names) if name != time]
        return places, names.index(time) if time else None

    def _history_dim(self) -> int:
        places, time = self._places()
        dims = self.inputs.sequence_dims(HISTORY)
        if time is not None and dims[time] != 1:
            raise ValueError(f"mind: time_id_fea needs embedding_dim 1, got {dims[time]}")
        own = [dims[place] for place in places]
        if self._options.user_seq_combine == "SUM" and len(set(own)) != 1:
            raise ValueError(f"group {HISTORY}: expected sequences of one width, got {own}")
        return own[0] if self._options.user_seq_combine == "SUM" else sum(own)

    def _history(self, batch: Batch) -> Sequence:
        sequences = self.inputs.sequences(batch, HISTORY)
        places, time = self._places()
        aligned = align(sequences)
        parts = [aligned[place] for place in places]
        if self._options.user_seq_combine == "SUM":
            x_BLD = torch.stack(parts).sum(dim=0) / len(parts)
        else:
            x_BLD = torch.cat(parts, dim=2)
        history = Sequence(x_BLD=self.before(x_BLD), lengths_B=sequences[0].lengths_B)
        if time is None:
            return history
        lowest = torch.finfo(x_BLD.dtype).min
        scores_BL = aligned[time].squeeze(2).masked_fill(~history.mask_BL, lowest)
        shares_BL1 = torch.softmax(scores_BL, dim=1).unsqueeze(2)
        return Sequence(x_BLD=history.x_BLD * shares_BL1, lengths_B=history.lengths_B)
