"""Vectors of words by the words around them."""

# Shape suffixes: B samples, N negatives, D width.

import torch
from pydantic import Field
from torch import Tensor, nn

from fleetrec.core.batch import Batch, Inputs
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import Initializer
from fleetrec.models import base
from fleetrec.models.table_options import TableOptions
from fleetrec.tasks.skip_gram import SkipGramTask

INPUT, TARGET, NEGATIVES = "input_word", "true_label", "neg_label"
NEVER = -1e4  # the score of padding
VECTORS, WEIGHTS, BIASES = "emb", "emb_w", "emb_b"


class Model(base.Model):
    """word2vec: skip-gram with negative sampling.

    Mikolov et al., "Distributed Representations of Words and Phrases and their Compositionality",
    NIPS 2013. Each word has a vector, and as a context another one and a bias.
    """

    class Config(TableOptions):
        """Hyper-parameters of word2vec."""

        sparse_feature_number: int = Field(default=354051, gt=0, description="words")
        sparse_feature_dim: int = Field(default=300, gt=0, description="width of a word")
        neg_num: int = Field(default=5, gt=0, description="negatives that the reader draws")
        window_size: int = Field(default=5, gt=0, description="largest window of the reader")
        with_shuffle_batch: bool = Field(
            default=False, description="must be False: the reader draws the negatives"
        )

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        missing = [name for name in (INPUT, TARGET, NEGATIVES) if name not in inputs.sparse]
        if missing:
            raise ValueError(f"sparse_slots lacks {', '.join(missing)}")
        if config.with_shuffle_batch:
            raise ValueError("with_shuffle_batch must be False: the reader draws the negatives")
        super().__init__(tasks=[SkipGramTask()])
        dim = config.sparse_feature_dim
        zeros = Initializer(kind="constant", center=0.0)
        self.embeddings = EmbeddingCollection(
            features=[
                EmbeddedFeature(feature=INPUT, table=VECTORS, combiner="mean"),
                EmbeddedFeature(feature=TARGET, table=WEIGHTS),
                EmbeddedFeature(feature=TARGET, table=BIASES, name=f"{TARGET}_bias"),
                EmbeddedFeature(feature=NEGATIVES, table=WEIGHTS, combiner="none"),
                EmbeddedFeature(
                    feature=NEGATIVES, table=BIASES, combiner="none", name=f"{NEGATIVES}_bias"
                ),
            ],
            tables=[
                config.table(VECTORS, dim, Initializer(scale=0.5 / dim)),
                config.table(WEIGHTS, dim, zeros),
                config.table(BIASES, 1, zeros),
            ],
        )

        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``vector`` of the word, and the scores of its context and of the negatives."""
        embedded = self.embeddings(batch)
        vector_BD = embedded.pooled(INPUT)
        true_BD, true_bias_B1 = embedded.pooled(TARGET), embedded.pooled(f"{TARGET}_bias")
        others, biases = embedded.sequence(NEGATIVES), embedded.sequence(f"{NEGATIVES}_bias")
        scores_BN = (others.x_BLD @ vector_BD.unsqueeze(2)).squeeze(2) + biases.x_BLD.squeeze(2)
        return {
            "vector": vector_BD,
            "positive": (vector_BD * true_BD).sum(dim=1) + true_bias_B1.squeeze(1) + self.bias,
            "negatives": scores_BN.masked_fill(~others.mask_BL, NEVER) + self.bias,
        }
