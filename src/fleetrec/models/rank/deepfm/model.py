"""Factorization machine and MLP over the same vectors."""

# Shape suffixes: B samples, F fields, D width.

from pydantic import Field
from torch import Tensor

from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.fields import FactorOptions, FieldEmbeddings, FieldModel, click_outputs
from fleetrec.nn.activation import ActivationName
from fleetrec.nn.fm import FactorizationMachine
from fleetrec.nn.linear_terms import LinearTerms
from fleetrec.nn.mlp import Mlp, scaled_linear


class Model(FieldModel):
    """DeepFM: a factorization machine and an MLP share their vectors, and their logits add up.

    Guo et al., "DeepFM: A Factorization-Machine based Neural Network for CTR Prediction",
    IJCAI 2017.
    """

    class Config(FactorOptions):
        """Hyper-parameters of DeepFM."""

        fc_sizes: tuple[int, ...] = Field(
            default=(400, 400, 400), description="widths of the hidden layers"
        )
        act: ActivationName = Field(default="relu", description="activation of hidden layers")

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        fields = FieldEmbeddings(
            config, inputs=inputs, dim=config.sparse_feature_dim, first_order=True
        )
        super().__init__(fields, reg=config.reg)
        self.linear = LinearTerms()
        self.fm = FactorizationMachine()
        self.mlp = Mlp(fields.out_dim, config.fc_sizes, activation=config.act)
        self.out = scaled_linear(self.mlp.out_dim, 1, bias=False)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        x_BFD = self.fields.vectors(batch)
        first_B = self.linear(self.fields.first_order(batch))
        deep_B = self.out(self.mlp(x_BFD.flatten(1))).squeeze(1)
        return click_outputs(first_B + self.fm(x_BFD) + deep_B)
