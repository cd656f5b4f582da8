"""What models of a user vector and an item vector have in common."""

# Shape suffixes: B samples, N sampled items, D width.

from collections.abc import Callable
from typing import Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.model import Dnn
from fleetrec.core.batch import Batch
from fleetrec.models.group_model import mlp_of
from fleetrec.models.match_scores import candidate_scores, is_list_wise, pair_outputs
from fleetrec.nn.mlp import Mlp, scaled_linear
from fleetrec.nn.scaled_similarity import ScaledSimilarity
from fleetrec.tasks.in_batch import SIMILARITY


class SimilarityOptions(Protocol):
    """How vectors are compared."""

    @property
    def simi_func(self) -> Literal["COSINE", "INNER_PRODUCT", "EUCLID"]:
        """Return whether vectors are normalised."""

    @property
    def temperature(self) -> float:
        """Return the divisor of the similarity."""


class VectorTower(nn.Module):
    """Layers whose last one is linear."""

    def __init__(self, dnn: Dnn, in_dim: int, *, name: str) -> None:
        super().__init__()
        *hidden, last = dnn.hidden_units
        if last == 0:
            raise ValueError(f"{name} needs hidden_units above 0")
        self.mlp = Mlp(in_dim, ())
        if hidden:
            ratios = dnn.dropout_ratio[:-1]
            shorter = {"hidden_units": tuple(hidden), "dropout_ratio": ratios}
            self.mlp = mlp_of(dnn.model_copy(update=shorter), in_dim)
        self.out = scaled_linear(self.mlp.out_dim, last)
        self.out_dim = last

    def forward(self, x_BX: Tensor) -> Tensor:
        """Return one vector per row."""
        vector_BD: Tensor = self.out(self.mlp(x_BX))
        return vector_BD


class VectorPair(nn.Module):
    """Compares a user vector with the item of the same sample, or with all candidates."""

    def __init__(
        self,
        config: GroupModelOptions,
        options: SimilarityOptions,
        *,
        scales: bool,
        ignores_batch_items: bool = False,
    ) -> None:
        super().__init__()
        if options.simi_func == "EUCLID":
            raise ValueError("simi_func EUCLID is known, but not supported here")
        if config.num_class != 1:
            raise ValueError(f"the model has one similarity, but num_class is {config.num_class}")
        self._is_list_wise = is_list_wise(config)
        self._ignores_batch_items = ignores_batch_items
        self._is_cosine = options.simi_func == "COSINE"
        self._temperature = options.temperature
        self.scale = ScaledSimilarity() if scales else nn.Identity()

    def normalised(self, vector_BD: Tensor) -> Tensor:
        """Return the vector that is compared."""
        return functional.normalize(vector_BD, dim=-1) if self._is_cosine else vector_BD

    def outputs(
        self,
        batch: Batch,
        user_BD: Tensor,
        item_BD: Tensor,
        *,
        negatives: Callable[[], Tensor],
        point_wise: Callable[[Tensor], dict[str, Tensor]],
    ) -> dict[str, Tensor]:
        """Return all outputs for normalised vectors; ``negatives`` are not normalised yet."""
        vectors = {"user_emb": user_BD, "item_emb": item_BD}
        product_B1 = (user_BD * item_BD).sum(dim=1, keepdim=True)
        score_B1 = self.scale(product_B1) / self._temperature
        if not self._is_list_wise:
            return {**point_wise(score_B1), **vectors}
        outputs = {**pair_outputs(score_B1.squeeze(1)), **vectors}
        if torch.compiler.is_exporting():
            return outputs
        scores_BC = candidate_scores(
            batch,
            user_BD,
            item_BD,
            negatives=lambda: self.normalised(negatives()),
            ignores_batch_items=self._ignores_batch_items,
        )
        return {**outputs, SIMILARITY: self.scale(scores_BC) / self._temperature}


def check_widths(user_dim: int, item_dim: int, *, name: str) -> None:
    """Refuse vectors of different widths."""
    if user_dim != item_dim:
        raise ValueError(
            f"{name}: user_tower and item_tower must end in the same width, got {user_dim} and "
            f"{item_dim}"
        )
