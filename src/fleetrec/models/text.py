"""Common parts of models over text: a label and the ids of the words."""

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

WORDS = "words"


class TextEmbeddings(nn.Module):
    """The table of words, and the text of a batch: the first slot is the label, the second one it.

    Of a text only the first ``max_length`` words count, if the reader cuts it there; of a longer
    one the last.
    """

    def __init__(
        self,
        options: GrowthOptions,
        *,
        inputs: Inputs,
        dim: int,
        num_words: int,
        max_length: int,
    ) -> None:
        super().__init__()
        if len(inputs.sparse) < 2:
            raise ValueError("sparse_slots must be the label and the words of the text")
        self.label, self.feature = inputs.sparse[:2]
        start = Initializer(kind="normal", scale=0.1)
        self.embeddings = EmbeddingCollection(
            features=[
                EmbeddedFeature(
                    feature=self.feature, table=WORDS, combiner="none", max_length=max_length
                )
            ],
            tables=[options.table(WORDS, dim, start, num_rows=num_words)],
        )

    def forward(self, batch: Batch) -> Sequence:
        """Return the vectors of the words."""
        embedded: Embedded = self.embeddings(batch)
        return embedded.sequence(self.feature)
