"""Compressed interaction network and MLP in parallel."""

# Shape suffixes: B samples, F fields, D width.

from pydantic import Field
from torch import Tensor

from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.fields import FieldEmbeddings, FieldModel, VectorOptions, click_outputs
from fleetrec.nn.activation import ActivationName
from fleetrec.nn.cin import Cin
from fleetrec.nn.linear_terms import LinearTerms
from fleetrec.nn.mlp import Mlp, scaled_linear


class Model(FieldModel):
    """xDeepFM: linear terms, explicit crosses of whole vectors (CIN), and an MLP.

    Lian et al., "xDeepFM: Combining Explicit and Implicit Feature Interactions for Recommender
    Systems", KDD 2018.
    """

    class Config(VectorOptions):
        """Hyper-parameters of xDeepFM."""

        layer_sizes_cin: tuple[int, ...] = Field(
            default=(10, 10), min_length=1, description="vectors in each layer of the CIN"
        )
        layer_sizes_dnn: tuple[int, ...] = Field(
            default=(10, 10, 10), description="widths of the hidden layers"
        )
        act: ActivationName = Field(default="relu", description="activation of hidden layers")

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        fields = FieldEmbeddings(
            config, inputs=inputs, dim=config.sparse_feature_dim, first_order=True
        )
        super().__init__(fields)
        self.linear = LinearTerms()
        self.cin = Cin(fields.num_fields, config.layer_sizes_cin)
        self.cin_out = scaled_linear(self.cin.out_dim, 1, bias=False)
        self.mlp = Mlp(fields.out_dim, config.layer_sizes_dnn, activation=config.act)
        self.out = scaled_linear(self.mlp.out_dim, 1, bias=False)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        x_BFD = self.fields.vectors(batch)
        first_B = self.linear(self.fields.first_order(batch))
        crossed_B = self.cin_out(self.cin(x_BFD)).squeeze(1)
        deep_B = self.out(self.mlp(x_BFD.flatten(1))).squeeze(1)
        return click_outputs(first_B + crossed_B + deep_B)
