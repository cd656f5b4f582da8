"""Feature importance and bilinear interactions."""

# Shape suffixes: B samples, F fields, D width, P pairs.

import torch
from pydantic import Field
from torch import Tensor

from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.fields import FieldEmbeddings, FieldModel, VectorOptions, click_outputs
from fleetrec.nn.bilinear import BilinearInteraction, BilinearType
from fleetrec.nn.linear_terms import LinearTerms
from fleetrec.nn.mlp import Mlp, scaled_linear
from fleetrec.nn.squeeze_excitation import SqueezeExcitation


class Model(FieldModel):
    """FiBiNET: bilinear products of all pairs, of the vectors and of those weighted by SENET.

    Huang, Zhang and Zhang, "FiBiNET: Combining Feature Importance and Bilinear Feature
    Interaction for Click-Through Rate Prediction", RecSys 2019.
    """

    class Config(VectorOptions):
        """Hyper-parameters of FiBiNET."""

        sparse_feature_number: int = Field(default=1000001, gt=0, description="ids in a table")
        bilinear_type: BilinearType = Field(
            default="all", description="one matrix for all pairs, for each field, for each pair"
        )
        reduction_ratio: int = Field(
            default=3, gt=0, description="how much SENET narrows the number of fields"
        )
        dropout_rate: float = Field(
            default=0.5, ge=0, lt=1, description="dropout probability of hidden values"
        )
        fc_sizes: tuple[int, ...] = Field(
            default=(400, 400, 400), description="widths of the hidden layers"
        )

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        dim = config.sparse_feature_dim
        fields = FieldEmbeddings(config, inputs=inputs, dim=dim, first_order=True)
        super().__init__(fields)
        self.linear = LinearTerms()
        self.senet = SqueezeExcitation(fields.num_fields, reduction_ratio=config.reduction_ratio)
        self.plain = BilinearInteraction(fields.num_fields, dim, kind=config.bilinear_type)
        self.weighed = BilinearInteraction(fields.num_fields, dim, kind=config.bilinear_type)
        num_products = self.plain.pairs.num_pairs + self.weighed.pairs.num_pairs
        self.mlp = Mlp(num_products * dim, config.fc_sizes, dropout=config.dropout_rate)
        self.out = scaled_linear(self.mlp.out_dim, 1, bias=False)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        x_BFD = self.fields.vectors(batch)
        products_BPD = torch.cat([self.plain(x_BFD), self.weighed(self.senet(x_BFD))], dim=1)
        deep_B = self.out(self.mlp(products_BPD.flatten(1))).squeeze(1)
        return click_outputs(self.linear(self.fields.first_order(batch)) + deep_B)
