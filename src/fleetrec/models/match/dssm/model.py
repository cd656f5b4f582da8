"""Queries and documents in one space."""

# Shape suffixes: B samples, N negatives, D width.

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from fleetrec.config.options import Options
from fleetrec.core.batch import Batch, Inputs
from fleetrec.models import base
from fleetrec.models.dense_values import DenseValues
from fleetrec.nn.activation import ActivationName
from fleetrec.nn.tower import Tower
from fleetrec.tasks.pairwise import PairwiseTask

QUERY, POSITIVE, NEGATIVE = "query", "doc_pos", "doc_neg_"


class Model(base.Model):
    """DSSM: a tower for queries and one for documents; a softmax over their cosines.

    Huang et al., "Learning Deep Structured Semantic Models for Web Search using Clickthrough
    Data", CIKM 2013. Dense slots are ``query``, ``doc_pos`` and ``doc_neg_0``, ``doc_neg_1``, ...,
    which predictions do not need.
    """

    class Config(Options):
        """Hyper-parameters of DSSM."""

        trigram_d: int | None = Field(
            default=None, gt=0, description="if given, must equal the width of queries"
        )
        neg_num: int = Field(default=1, gt=0, description="negative documents of a sample")
        fc_sizes: tuple[int, ...] = Field(
            default=(300, 300, 128), min_length=1, description="widths of a tower's layers"
        )
        fc_acts: tuple[ActivationName, ...] = Field(
            default=("tanh", "tanh", "tanh"), description="their activations"
        )
        gamma: float = Field(default=10.0, gt=0, description="factor of the cosine in the softmax")
        slice_end: int | None = Field(
            default=None, gt=0, description="without effect: batches may have any size"
        )

    output_aliases = {"cos_sim_0.tmp_0": "similarity"}

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        super().__init__(tasks=[PairwiseTask(margin=None)])
        missing = [name for name in (QUERY, POSITIVE) if name not in inputs.dense]
        if missing:
            raise ValueError(f"dense_slots lacks {', '.join(missing)}")
        negatives = tuple(name for name in inputs.dense if name.startswith(NEGATIVE))
        self.training_features = negatives[: config.neg_num]
        width = config.trigram_d or DenseValues(inputs, [QUERY]).width
        for name in (QUERY, POSITIVE, *self.training_features):
            found = DenseValues(inputs, [name]).width
            if found != width:
                raise ValueError(f"expected {name} to be {width} wide, got {found}")
        self.gamma = config.gamma
        self.query = Tower(width, config.fc_sizes, acts=config.fc_acts)
        self.document = Tower(width, config.fc_sizes, acts=config.fc_acts)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``similarity``, the cosine of query and document, and the scores of training."""
        query_BD = self.query(batch.dense[QUERY].flatten(1))
        similarity_B = self._cosine(query_BD, batch.dense[POSITIVE])
        outputs = {"similarity": similarity_B, "positive": self.gamma * similarity_B}
        names = [name for name in self.training_features if name in batch.dense]
        if names:
            negatives = [self._cosine(query_BD, batch.dense[name]) for name in names]
            outputs["negatives"] = self.gamma * torch.stack(negatives, dim=1)
        return outputs

    def _cosine(self, query_BD: Tensor, document: Tensor) -> Tensor:
        document_BD = self.document(document.flatten(1))
        return functional.cosine_similarity(query_BD, document_BD, dim=1)
