"""The smallest model with a table: one vector, one linear layer."""

from torch import nn

from fleetrec.config.options import Options
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import TableConfig
from fleetrec.models.base import Model
from fleetrec.tasks.binary import BinaryTask


class Linear(Model):
    """One vector and one weight; ``table`` says what table ``t`` is beside its name and width."""

    class Config(Options):
        """Has nothing to choose."""

    def __init__(self, **table):
        super().__init__(tasks=[BinaryTask(label="click")])
        feature = EmbeddedFeature(feature="a", table="t")
        self.embeddings = EmbeddingCollection(
            features=[feature], tables=[TableConfig(name="t", dim=2, **table)]
        )
        self.out = nn.Linear(2, 1)

    def forward(self, batch):
        return {"logit": self.out(self.embeddings(batch).cat()).squeeze(1)}
