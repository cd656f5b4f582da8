"""Conversion rates over the entire space of impressions."""

# Shape suffixes: B samples.

import torch
from pydantic import Field
from torch import Tensor

from fleetrec.core.batch import Batch, Inputs
from fleetrec.embedding.collection import EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import Initializer
from fleetrec.models import base
from fleetrec.models.dense_values import DenseValues
from fleetrec.models.table_options import GrowthOptions
from fleetrec.nn.joint_probability import joint_logit
from fleetrec.nn.mlp import Mlp, scaled_linear
from fleetrec.tasks.binary import BinaryTask

TABLE = "factors"


class Model(base.Model):
    """ESMM: a tower for clicks and one for conversions; their product is learned from all samples.

    Ma et al., "Entire Space Multi-Task Model: An Effective Approach for Estimating Post-Click
    Conversion Rate", SIGIR 2018. The first two sparse slots are the labels: a click, and a click
    that was followed by a conversion.
    """

    class Config(GrowthOptions):
        """Hyper-parameters of ESMM."""

        vocab_size: int = Field(default=737946, gt=0, description="ids in the table")
        embed_size: int = Field(default=12, gt=0, description="width of an embedding")
        fc_sizes: tuple[int, ...] = Field(
            default=(360, 200, 80), description="widths of the layers of a tower"
        )

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        if len(inputs.sparse) < 2:
            raise ValueError("sparse_slots must begin with the labels of click and conversion")
        click, conversion, *slots = inputs.sparse
        super().__init__(
            tasks=[
                BinaryTask(label=label, logit=f"logit_{n}", prediction=f"predict_{n}", name=n)
                for n, label in (("ctr", click), ("ctcvr", conversion))
            ]
        )
        start = Initializer(kind="normal", scale=0.05)
        self._dense = DenseValues(inputs)
        self.embeddings = EmbeddingCollection(
            features=[EmbeddedFeature(feature=slot, table=TABLE) for slot in slots],
            tables=[config.table(TABLE, config.embed_size, start, num_rows=config.vocab_size)],
        )
        in_dim = self.embeddings.out_dim + self._dense.width
        self.click = Mlp(in_dim, config.fc_sizes)
        self.click_out = scaled_linear(self.click.out_dim, 1)
        self.conversion = Mlp(in_dim, config.fc_sizes)
        self.conversion_out = scaled_linear(self.conversion.out_dim, 1)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return logit and probability of ``ctr`` and ``ctcvr``, and ``predict_cvr``."""
        parts = [self._dense.of(batch)] if self._dense.names else []
        x_BX = torch.cat([self.embeddings(batch).cat(), *parts], dim=1)
        click_B = self.click_out(self.click(x_BX)).squeeze(1)
        after_click_B = self.conversion_out(self.conversion(x_BX)).squeeze(1)
        both_B = joint_logit(click_B, after_click_B)
        return {
            "logit_ctr": click_B,
            "predict_ctr": torch.sigmoid(click_B),
            "predict_cvr": torch.sigmoid(after_click_B),
            "logit_ctcvr": both_B,
            "predict_ctcvr": torch.sigmoid(both_B),
        }
