"""Interactions of learned order in complex space."""

# Shape suffixes: B samples, F fields, D width.

from pydantic import Field
from torch import Tensor, nn

from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.fields import FieldEmbeddings, FieldModel, VectorOptions, click_outputs
from fleetrec.nn.euler import EulerLayer, EulerMapping
from fleetrec.nn.mlp import scaled_linear


class Model(FieldModel):
    """EulerNet: products of powers of fields, whose orders are learned in polar form.

    Tian et al., "EulerNet: Adaptive Feature Interaction Learning via Euler's Formula for CTR
    Prediction", SIGIR 2023.
    """

    class Config(VectorOptions):
        """Hyper-parameters of EulerNet."""

        layer_sizes: tuple[int, ...] = Field(
            default=(20, 20), min_length=1, description="products in each layer"
        )
        dropout_rate: float = Field(
            default=0.0, ge=0, lt=1, description="dropout probability of layer inputs"
        )

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        fields = FieldEmbeddings(config, inputs=inputs, dim=config.sparse_feature_dim)
        super().__init__(fields)
        self.mapping = EulerMapping(fields.num_fields)
        self.layers = nn.ModuleList()
        num_inputs = fields.num_fields
        for size in config.layer_sizes:
            layer = EulerLayer(num_inputs, fields.dim, out_fields=size, dropout=config.dropout_rate)
            self.layers.append(layer)
            num_inputs = size
        self.real = scaled_linear(num_inputs * fields.dim, 1)
        self.imaginary = scaled_linear(num_inputs * fields.dim, 1, bias=False)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        real_BFD, imaginary_BFD = self.mapping(self.fields.vectors(batch))
        for layer in self.layers:
            real_BFD, imaginary_BFD = layer(real_BFD, imaginary_BFD)
        logit_B1 = self.real(real_BFD.flatten(1)) + self.imaginary(imaginary_BFD.flatten(1))
        return click_outputs(logit_B1.squeeze(1))
