"""Neural collaborative filtering."""

# Shape suffixes: B samples, D width.

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from fleetrec.core.batch import Batch, Inputs
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import Initializer
from fleetrec.models import base
from fleetrec.models.fields import click_outputs
from fleetrec.models.table_options import GrowthOptions
from fleetrec.nn.mlp import Mlp, scaled_linear
from fleetrec.tasks.binary import BinaryTask


class Model(base.Model):
    """NCF: the product of the vectors of user and item (GMF), an MLP over both, or the two (NeuMF).

    He et al., "Neural Collaborative Filtering", WWW 2017. The sparse slots are label, user, item.
    """

    class Config(GrowthOptions):
        """Hyper-parameters of NCF."""

        num_users: int = Field(default=6040, gt=0, description="largest id of a user")
        num_items: int = Field(default=3706, gt=0, description="largest id of an item")
        latent_dim: int = Field(default=8, gt=0, description="width of the vectors of GMF")
        mf_dim: int | None = Field(default=None, gt=0, description="another name of latent_dim")
        fc_layers: tuple[int, ...] = Field(
            default=(64, 32, 16, 8),
            min_length=1,
            description="widths of the MLP; the first is that of user and item together",
        )
        mode: Literal["NCF_NeuMF", "NCF_GMF", "NCF_MLP"] = Field(
            default="NCF_NeuMF", description="which of the two parts there are"
        )

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        if len(inputs.sparse) < 3:
            raise ValueError("sparse_slots must be the label, the user and the item")
        label, *features = inputs.sparse[:3]
        super().__init__(tasks=[BinaryTask(label=label)])
        sizes = (config.num_users + 1, config.num_items + 1)
        dims = {}
        if config.mode != "NCF_MLP":
            dims["mf"] = config.mf_dim or config.latent_dim
        if config.mode != "NCF_GMF":
            dims["mlp"] = config.fc_layers[0] // 2
        start = Initializer(kind="normal", scale=0.05)
        self._names = {part: [f"{part}_{side}" for side in ("user", "item")] for part in dims}
        self.embeddings = EmbeddingCollection(
            features=[
                EmbeddedFeature(feature=feature, table=name, name=name)
                for part in dims
                for feature, name in zip(features, self._names[part], strict=True)
            ],
            tables=[
                config.table(name, dim, start, num_rows=size)
                for part, dim in dims.items()
                for size, name in zip(sizes, self._names[part], strict=True)
            ],
        )
        self.mlp = Mlp(2 * dims["mlp"], config.fc_layers[1:]) if "mlp" in dims else None
        width = dims.get("mf", 0) + (0 if self.mlp is None else self.mlp.out_dim)
        self.out = scaled_linear(width, 1)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability that the user likes the item."""
        embedded = self.embeddings(batch)
        parts = []
        if "mf" in self._names:
            user, item = self._names["mf"]
            parts.append(embedded.pooled(user) * embedded.pooled(item))
        if self.mlp is not None:
            parts.append(self.mlp(embedded.cat(self._names["mlp"])))
        return click_outputs(self.out(torch.cat(parts, dim=1)).squeeze(1))
