"""Common parts of models over sessions: the items so far, and the next one as the label.

The first sparse slot is the next item, the second one the items of the session in order of time.
"""

# Shape suffixes: B samples, L elements, D width.

import dataclasses

from pydantic import Field
from torch import nn

from fleetrec.core.batch import Batch, Inputs
from fleetrec.embedding.collection import (
    Embedded,
    EmbeddedFeature,
    EmbeddingCollection,
    Sequence,
)
from fleetrec.embedding.table import Initializer
from fleetrec.models.table_options import GrowthOptions

ITEMS = "items"


class SessionOptions(GrowthOptions):
    """Hyper-parameters of models over sessions."""

    max_length: int = Field(default=50, gt=0, description="items of a session, the last ones")
    recall_k: int = Field(default=20, gt=0, description="depth of recall, NDCG and MRR")


class SessionEmbeddings(nn.Module):
    """The table of items, and the session of a batch."""

    def __init__(
        self,
        options: SessionOptions,
        *,
        inputs: Inputs,
        dim: int,
        num_items: int,
        initializer: Initializer,
        lr_scale: float = 1.0,
    ) -> None:
        super().__init__()
        if len(inputs.sparse) < 2:
            raise ValueError(
                "sparse_slots must be the next item and the items of the session, got "
                f"{', '.join(inputs.sparse) or 'none'}"
            )
        self.label, self.feature = inputs.sparse[:2]
        table = options.table(ITEMS, dim, initializer, num_rows=num_items)
        self.embeddings = EmbeddingCollection(
            features=[
                EmbeddedFeature(
                    feature=self.feature,
                    table=ITEMS,
                    combiner="none",
                    max_length=options.max_length,
                )
            ],
            tables=[dataclasses.replace(table, lr_scale=lr_scale)],
        )

    def forward(self, batch: Batch) -> Sequence:
        """Return the vectors of the items."""
        embedded: Embedded = self.embeddings(batch)
        return embedded.sequence(self.feature)
