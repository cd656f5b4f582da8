"""Product-based neural network."""

# Shape suffixes: B samples, F fields, D width, N width of the product layer.

from pydantic import Field
from torch import Tensor

from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.fields import FieldEmbeddings, FieldModel, VectorOptions, click_outputs
from fleetrec.nn.activation import ActivationName, activation
from fleetrec.nn.mlp import Mlp, scaled_linear
from fleetrec.nn.product import InnerProduct, OuterProduct


class Model(FieldModel):
    """PNN: an MLP over a layer of products of all pairs of fields, inner or outer ones.

    Qu et al., "Product-based Neural Networks for User Response Prediction", ICDM 2016.
    """

    class Config(VectorOptions):
        """Hyper-parameters of PNN."""

        reg: float = Field(default=0.001, ge=0, description="L1 factor of the vectors")
        deep_input_size: int = Field(default=50, gt=0, description="width of the product layer")
        use_inner_product: bool = Field(
            default=True, description="inner products; outer ones if false"
        )
        fc_sizes: tuple[int, ...] = Field(
            default=(32, 32), description="widths of the hidden layers"
        )
        act: ActivationName = Field(default="relu", description="activation of hidden layers")

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        fields = FieldEmbeddings(config, inputs=inputs, dim=config.sparse_feature_dim)
        super().__init__(fields, reg=config.reg)
        width = config.deep_input_size
        self.linear = scaled_linear(fields.out_dim, width)
        self.product: InnerProduct | OuterProduct
        if config.use_inner_product:
            self.product = InnerProduct(fields.num_fields, width)
        else:
            self.product = OuterProduct(fields.dim, width)
        self.act = activation(config.act, dim=width)
        self.mlp = Mlp(width, config.fc_sizes, activation=config.act)
        self.out = scaled_linear(self.mlp.out_dim, 1)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        x_BFD = self.fields.vectors(batch)
        h_BN: Tensor = self.act(self.linear(x_BFD.flatten(1)) + self.product(x_BFD))
        return click_outputs(self.out(self.mlp(h_BN)).squeeze(1))
