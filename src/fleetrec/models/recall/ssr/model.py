"""Sessions and items in one space."""

# Shape suffixes: B samples, N negatives, D width.

from pydantic import Field
from torch import Tensor
from torch.nn import functional

from fleetrec.core.batch import Batch, Inputs
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import Initializer
from fleetrec.models import base
from fleetrec.models.table_options import GrowthOptions
from fleetrec.nn.gru import Gru
from fleetrec.nn.mlp import scaled_linear
from fleetrec.tasks.pairwise import PairwiseTask

ITEMS = "items"


class Model(base.Model):
    """SSR: a GRU encodes the session, a layer encodes items, and their cosines are compared.

    After Song, Elkahky and He, "Multi-Rate Deep Learning for Temporal Recommendation", SIGIR 2016.
    The sparse slots are the session, the next item, and items that are not.
    """

    class Config(GrowthOptions):
        """Hyper-parameters of SSR."""

        vocab_size: int = Field(default=1000, gt=0, description="items in the table")
        emb_dim: int = Field(default=128, gt=0, description="width of an item in the table")
        hidden_size: int = Field(default=100, gt=0, description="width of what is compared")
        margin: float = Field(default=0.8, gt=0, description="margin of the hinge")
        recall_k: int = Field(default=20, gt=0, description="depth of recall, NDCG and MRR")
        max_length: int = Field(default=50, gt=0, description="items of a session, the last ones")

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        if len(inputs.sparse) < 3:
            raise ValueError("sparse_slots must be the session, the next item and other items")
        super().__init__(tasks=[PairwiseTask(margin=config.margin, depth=config.recall_k)])
        self._session, self._next, self._others = inputs.sparse[:3]
        self.embeddings = EmbeddingCollection(
            features=[
                EmbeddedFeature(
                    feature=self._session,
                    table=ITEMS,
                    combiner="none",
                    max_length=config.max_length,
                ),
                EmbeddedFeature(feature=self._next, table=ITEMS),
                EmbeddedFeature(feature=self._others, table=ITEMS, combiner="none"),
            ],
            tables=[
                config.table(
                    ITEMS,
                    config.emb_dim,
                    Initializer(kind="normal", scale=0.1),
                    num_rows=config.vocab_size,
                )
            ],
        )
        self.gru = Gru(config.emb_dim, config.hidden_size)
        self.of_session = scaled_linear(config.hidden_size, config.hidden_size)
        self.of_item = scaled_linear(config.emb_dim, config.hidden_size)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return the cosines of the session with the next item and the others."""
        embedded = self.embeddings(batch)
        session, others = embedded.sequence(self._session), embedded.sequence(self._others)
        _, state_BD = self.gru(session.x_BLD, session.mask_BL)
        session_BD = self.of_session(state_BD)
        next_BD = self.of_item(embedded.pooled(self._next))
        others_BND = self.of_item(others.x_BLD)
        cosines_BN = functional.cosine_similarity(session_BD.unsqueeze(1), others_BND, dim=2)
        return {
            "positive": functional.cosine_similarity(session_BD, next_BD, dim=1),
            "negatives": cosines_BN,
        }
