"""Common parts of models over histories: a list of past items, and one target item.

Slots are the label, ``history`` and ``cate`` (items and their categories, in order of time, equally
many), ``target`` and ``target_cate`` (one each).
"""

# Shape suffixes: B samples, L elements of a history, D width of an item with its category.

import dataclasses

import torch
from pydantic import Field
from torch import Tensor, nn

from fleetrec.core.batch import Batch, Inputs
from fleetrec.core.errors import DataError
from fleetrec.embedding.collection import Embedded, EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import Initializer
from fleetrec.models.fields import label_of
from fleetrec.models.table_options import GrowthOptions

ITEMS, CATEGORIES, POSITIONS = "history", "cate", "position"
TARGET, TARGET_CATEGORY = "target", "target_cate"
BIAS = "item_bias"


class HistoryOptions(GrowthOptions):
    """Hyper-parameters of models over histories."""

    item_emb_size: int = Field(default=64, gt=0, description="width of an item")
    cat_emb_size: int = Field(default=64, gt=0, description="width of a category")
    item_count: int = Field(default=63001, gt=0, description="items in the table")
    cat_count: int = Field(default=801, gt=0, description="categories in the table")
    max_length: int = Field(default=200, gt=0, description="elements of a history, the last ones")


@dataclasses.dataclass(frozen=True, kw_only=True)
class History:
    """The vectors of a batch; ``mask_BL`` is true where there is an element."""

    x_BLD: Tensor
    mask_BL: Tensor
    target_BD: Tensor


class HistoryEmbeddings(nn.Module):
    """The tables of a model over histories."""

    def __init__(
        self,
        options: HistoryOptions,
        *,
        inputs: Inputs,
        position_dim: int = 0,
        num_positions: int = 0,
    ) -> None:
        """Create tables of items, categories and biases, and one of positions if it has a width."""
        super().__init__()
        self.label = label_of(inputs)
        sequences = {ITEMS: "items", CATEGORIES: "categories"}
        targets = {TARGET: "items", TARGET_CATEGORY: "categories"}
        dims = {"items": options.item_emb_size, "categories": options.cat_emb_size, BIAS: 1}
        sizes = {"items": options.item_count, "categories": options.cat_count}
        sizes[BIAS] = options.item_count
        if position_dim:
            sequences[POSITIONS] = "positions"
            dims["positions"], sizes["positions"] = position_dim, num_positions
        missing = sorted({*sequences, *targets} - set(inputs.sparse))
        if missing:
            raise ValueError(f"sparse_slots lacks {', '.join(missing)}")
        self._sequences, self._targets = tuple(sequences), tuple(targets)
        self.dim = sum(dims[table] for table in targets.values())
        self.position_dim = position_dim
        length = options.max_length
        self.embeddings = EmbeddingCollection(
            features=[
                *(
                    EmbeddedFeature(feature=f, table=t, combiner="none", max_length=length)
                    for f, t in sequences.items()
                ),
                *(EmbeddedFeature(feature=f, table=t) for f, t in targets.items()),
                EmbeddedFeature(feature=TARGET, table=BIAS, name=BIAS),
            ],
            tables=[
                options.table(name, dim, _initializer(name), num_rows=sizes[name])
                for name, dim in dims.items()
            ],
        )

    def forward(self, batch: Batch) -> History:
        """Return histories and targets; elements include their positions."""
        embedded = self.embeddings(batch)
        found = [embedded.sequence(name) for name in self._sequences]
        if not torch.compiler.is_exporting():
            for name, sequence in zip(self._sequences, found, strict=True):
                if not torch.equal(sequence.lengths_B, found[0].lengths_B):
                    raise DataError(f"slots {ITEMS!r} and {name!r} must be equally long")
        return History(
            x_BLD=torch.cat([sequence.x_BLD for sequence in found], dim=2),
            mask_BL=found[0].mask_BL,
            target_BD=embedded.cat(self._targets),
        )

    def bias(self, batch: Batch) -> Tensor:
        """Return bias_B of the targets."""
        embedded: Embedded = self.embeddings(batch)
        return embedded.pooled(BIAS).squeeze(1)


def _initializer(table: str) -> Initializer:
    if table == BIAS:
        return Initializer(kind="constant", center=0.0)
    return Initializer(kind="normal", scale=0.1)
