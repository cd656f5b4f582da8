"""Attentional factorization machine."""

from pydantic import Field
from torch import Tensor

from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.fields import FactorOptions, FieldEmbeddings, FieldModel, click_outputs
from fleetrec.nn.activation import ActivationName
from fleetrec.nn.linear_terms import LinearTerms
from fleetrec.nn.mlp import scaled_linear
from fleetrec.nn.pair_attention import PairAttention


class Model(FieldModel):
    """AFM: a factorization machine that learns which pairs of fields matter.

    Xiao et al., "Attentional Factorization Machines: Learning the Weight of Feature Interactions
    via Attention Networks", IJCAI 2017.
    """

    class Config(FactorOptions):
        """Hyper-parameters of AFM."""

        sparse_feature_dim: int = Field(default=16, gt=0, description="width of an embedding")
        hidden1_attention_size: int = Field(
            default=16, gt=0, description="width of the attention network"
        )
        act: ActivationName = Field(
            default="relu", description="activation of the attention network"
        )

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        fields = FieldEmbeddings(
            config, inputs=inputs, dim=config.sparse_feature_dim, first_order=True
        )
        super().__init__(fields, reg=config.reg)
        self.linear = LinearTerms()
        self.attention = PairAttention(
            fields.num_fields,
            fields.dim,
            attention_dim=config.hidden1_attention_size,
            act=config.act,
        )
        self.out = scaled_linear(fields.dim, 1, bias=False)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        first_B = self.linear(self.fields.first_order(batch))
        pooled_BD = self.attention(self.fields.vectors(batch))
        return click_outputs(first_B + self.out(pooled_BD).squeeze(1))
