"""Queries and titles, each seen by an encoder."""

# Shape suffixes: B samples, L words, D width.

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from fleetrec.core.batch import Batch, Inputs
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection, Sequence
from fleetrec.embedding.table import Initializer
from fleetrec.models import base
from fleetrec.models.table_options import GrowthOptions
from fleetrec.nn.gru import Gru
from fleetrec.nn.mlp import scaled_linear
from fleetrec.nn.text_cnn import TextCnn
from fleetrec.tasks.pairwise import PairwiseTask

WORDS = "words"
Kind = Literal["bow", "cnn", "gru"]


class Model(base.Model):
    """Multi-view SimNet: encoders of query and title, a layer each, and their cosine.

    Elkahky, Song and He, "A Multi-View Deep Learning Approach for Cross Domain User Modeling in
    Recommendation Systems", WWW 2015. The sparse slots are the query, a title that fits, and in
    training one that does not.
    """

    class Config(GrowthOptions):
        """Hyper-parameters of the multi-view SimNet."""

        query_encoder: Kind = Field(default="bow", description="sum, convolution or GRU of words")
        title_encoder: Kind = Field(default="bow", description="the same of titles")
        query_encode_dim: int = Field(default=128, gt=0, description="width of an encoded query")
        title_encode_dim: int = Field(default=128, gt=0, description="width of an encoded title")
        sparse_feature_dim: int = Field(default=6327, gt=0, description="words in the table")
        embedding_dim: int = Field(default=128, gt=0, description="width of a word")
        hidden_size: int = Field(default=128, gt=0, description="width of what is compared")
        win_size: int = Field(default=3, gt=0, description="words under a filter of cnn")
        margin: float = Field(default=0.1, gt=0, description="margin of the hinge")
        max_length: int = Field(default=200, gt=0, description="words of a text, the last ones")

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        if len(inputs.sparse) < 2:
            raise ValueError("sparse_slots must be the query and a title")
        super().__init__(tasks=[PairwiseTask(margin=config.margin, positive="similarity")])
        self._texts = inputs.sparse[:3]
        self.embeddings = EmbeddingCollection(
            features=[
                EmbeddedFeature(
                    feature=text, table=WORDS, combiner="none", max_length=config.max_length
                )
                for text in self._texts
            ],
            tables=[
                config.table(
                    WORDS,
                    config.embedding_dim,
                    Initializer(kind="normal", scale=0.1),
                    num_rows=config.sparse_feature_dim,
                )
            ],
        )
        query = _Encoder(config, config.query_encoder, config.query_encode_dim)
        title = _Encoder(config, config.title_encoder, config.title_encode_dim)
        self.query = nn.ModuleList([query, scaled_linear(query.out_dim, config.hidden_size)])
        self.title = nn.ModuleList([title, scaled_linear(title.out_dim, config.hidden_size)])

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``similarity``, the cosine of query and title, and the scores of training."""
        embedded = self.embeddings(batch)
        query, *titles = (embedded.sequence(text) for text in self._texts)
        query_BD = _encode(self.query, query)
        scores = [
            functional.cosine_similarity(query_BD, _encode(self.title, title), dim=1)
            for title in titles
        ]
        outputs = {"similarity": scores[0]}
        return outputs | {"negatives": torch.stack(scores[1:], dim=1)} if scores[1:] else outputs


class _Encoder(nn.Module):
    """One vector of a text; ``bow`` is softsign of the sum of its words."""

    def __init__(self, config: Model.Config, kind: Kind, dim: int) -> None:
        super().__init__()
        width = config.embedding_dim
        self.cnn = (
            TextCnn(width, filter_sizes=[config.win_size], num_filters=[dim], act="tanh")
            if kind == "cnn"
            else None
        )
        self.gru = Gru(width, dim) if kind == "gru" else None
        self.out_dim = width if kind == "bow" else dim

    def forward(self, words: Sequence) -> Tensor:
        if self.cnn is not None:
            return self.cnn(words.x_BLD, words.mask_BL)  # type: ignore[no-any-return]
        if self.gru is not None:
            return self.gru(words.x_BLD, words.mask_BL)[1]  # type: ignore[no-any-return]
        return functional.softsign(words.x_BLD.sum(dim=1))


def _encode(layers: nn.ModuleList, words: Sequence) -> Tensor:
    encoder, linear = layers
    return torch.relu(linear(encoder(words)))
