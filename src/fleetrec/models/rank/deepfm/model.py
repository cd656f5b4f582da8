"""Factorization machine and MLP over the same vectors."""

# Shape suffixes: B samples, F fields, D width.

from pydantic import Field
from torch import Tensor

from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.fields import FactorOptions, FieldEmbeddings, FieldModel, click_outputs
from fleetrec.models.rank.deepfm.network import DeepFm
from fleetrec.nn.activation import ActivationName
from fleetrec.nn.mlp import Mlp


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
        self.network = DeepFm(Mlp(fields.out_dim, config.fc_sizes, activation=config.act))

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        x_BFD = self.fields.vectors(batch)
        terms_BF = self.fields.first_order(batch)
        logits_BK = self.network(terms_BF.unsqueeze(2), x_BFD, x_BFD.flatten(1))
        return click_outputs(logits_BK.squeeze(1))
