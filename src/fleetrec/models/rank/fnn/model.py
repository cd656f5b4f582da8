"""Factorization-machine supported neural network, its second phase."""

# Shape suffixes: B samples, F fields, D width, X input width (F (D + 1)).

import torch
from pydantic import Field
from torch import Tensor

from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.fields import FactorOptions, FieldEmbeddings, FieldModel, click_outputs
from fleetrec.nn.mlp import Mlp, scaled_linear


class Model(FieldModel):
    """FNN: an MLP over weight and vector of each field, initialized from a factorization machine.

    Zhang, Du and Wang, "Deep Learning over Multi-field Categorical Data", ECIR 2016.
    """

    class Config(FactorOptions):
        """Hyper-parameters of FNN."""

        fc_sizes: tuple[int, ...] = Field(
            default=(512, 256, 128, 32), description="widths of the hidden layers"
        )

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        fields = FieldEmbeddings(
            config, inputs=inputs, dim=config.sparse_feature_dim, first_order=True
        )
        super().__init__(fields, reg=config.reg)
        self.mlp = Mlp(fields.num_fields * (fields.dim + 1), config.fc_sizes)
        self.out = scaled_linear(self.mlp.out_dim, 1)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        terms_BF, x_BFD = self.fields.first_order(batch), self.fields.vectors(batch)
        x_BX = torch.cat([terms_BF, x_BFD.flatten(1)], dim=1)
        return click_outputs(self.out(self.mlp(x_BX)).squeeze(1))
