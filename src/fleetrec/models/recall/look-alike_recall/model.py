"""How much a user is like a set of seed users."""

# Shape suffixes: B samples, L seeds, D width.

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from fleetrec.core.batch import Batch, Inputs
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import Initializer
from fleetrec.models import base
from fleetrec.models.fields import click_outputs
from fleetrec.models.table_options import GrowthOptions
from fleetrec.nn.mlp import scaled_linear
from fleetrec.nn.scaled_similarity import ScaledSimilarity
from fleetrec.nn.sequence_attention import SequenceAttention
from fleetrec.tasks.binary import BinaryTask

USERS = "users"


class Model(base.Model):
    """RALM: attention over the seeds, by themselves and by the target user, compared with it.

    Liu et al., "Real-time Attention Based Look-alike Model for Recommender System", KDD 2019. The
    sparse slots are the label, the seed users and the target user.
    """

    class Config(GrowthOptions):
        """Hyper-parameters of RALM."""

        user_count: int = Field(default=100000, gt=0, description="users in the table")
        user_emb_size: int = Field(default=96, gt=0, description="width of a user")
        transformed_size: int = Field(default=96, gt=0, description="width of what is compared")
        seeds_num: int = Field(default=100, gt=0, description="seeds of a sample, the last ones")

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        if len(inputs.sparse) < 3:
            raise ValueError("sparse_slots must be the label, the seed users and the target user")
        label, self._seeds, self._target = inputs.sparse[:3]
        super().__init__(tasks=[BinaryTask(label=label)])
        self.embeddings = EmbeddingCollection(
            features=[
                EmbeddedFeature(
                    feature=self._seeds,
                    table=USERS,
                    combiner="none",
                    max_length=config.seeds_num,
                ),
                EmbeddedFeature(feature=self._target, table=USERS),
            ],
            tables=[
                config.table(
                    USERS,
                    config.user_emb_size,
                    Initializer(kind="normal", scale=0.1),
                    num_rows=config.user_count,
                )
            ],
        )
        dim = config.transformed_size
        self.of_seed = scaled_linear(config.user_emb_size, dim)
        self.of_target = scaled_linear(config.user_emb_size, dim)
        self.attention = SequenceAttention(dim)
        self.match = scaled_linear(dim, dim, bias=False)
        self.scale = ScaledSimilarity()

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit``, ``predict`` and ``similarity``, the sum of two cosines."""
        embedded = self.embeddings(batch)
        seeds = embedded.sequence(self._seeds)
        mask_BL = seeds.mask_BL
        seeds_BLD = torch.tanh(self.of_seed(seeds.x_BLD))
        target_BD = torch.tanh(self.of_target(embedded.pooled(self._target)))
        global_BD = self.attention(seeds_BLD, mask_BL)
        scores_BL = (self.match(seeds_BLD) * target_BD.unsqueeze(1)).sum(dim=2)
        lowest = torch.finfo(scores_BL.dtype).min
        shares_BL = torch.softmax(scores_BL.masked_fill(~mask_BL, lowest), dim=1) * mask_BL
        local_BD = (shares_BL.unsqueeze(2) * seeds_BLD).sum(dim=1)
        similarity_B = functional.cosine_similarity(global_BD, target_BD, dim=1)
        similarity_B = similarity_B + functional.cosine_similarity(local_BD, target_BD, dim=1)
        return {**click_outputs(self.scale(similarity_B)), "similarity": similarity_B}
