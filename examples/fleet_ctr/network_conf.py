"""The network: embeddings of 26 categories beside 13 numbers, and three layers on top."""

# Shape suffixes: B samples.

import torch
from torch import Tensor, nn

from fleetrec.core.batch import Batch, Inputs
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import Initializer, TableConfig
from fleetrec.models import base
from fleetrec.nn.mlp import Mlp
from fleetrec.tasks.binary import BinaryTask


class CtrDnn(base.Model):
    """A deep click model."""

    class Config(base.Model.Config):
        """Sizes of the network."""

        embedding_size: int = 10
        sparse_feature_dim: int = 10000001
        hidden: tuple[int, ...] = (400, 400, 400)

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        super().__init__(tasks=[BinaryTask(label="label")])
        table = TableConfig(
            name="embedding",
            dim=config.embedding_size,
            num_rows=config.sparse_feature_dim,
            initializer=Initializer(scale=config.embedding_size**-0.5),
        )
        self.embeddings = EmbeddingCollection(
            features=[
                EmbeddedFeature(feature=name, table=table.name)
                for name in inputs.sparse
                if name != "label"
            ],
            tables=[table],
        )
        (num_dense,) = inputs.dense["dense_input"]
        self.mlp = Mlp(self.embeddings.out_dim + num_dense, config.hidden)
        self.out = nn.Linear(self.mlp.out_dim, 1)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        parts = [self.embeddings(batch).cat(), batch.dense["dense_input"]]
        logit_B = self.out(self.mlp.of_parts(parts)).squeeze(1)
        return {"logit": logit_B, "predict": torch.sigmoid(logit_B)}
