"""Deep crossing."""

# Shape suffixes: B samples, F fields, D width, X input width (F D).

from pydantic import Field
from torch import Tensor, nn

from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.fields import FieldEmbeddings, FieldModel, VectorOptions, click_outputs
from fleetrec.nn.mlp import scaled_linear
from fleetrec.nn.residual_unit import ResidualUnit


class Model(FieldModel):
    """Deep Crossing: residual units over all vectors side by side.

    Shan et al., "Deep Crossing: Web-Scale Modeling without Manually Crafted Combinatorial
    Features", KDD 2016.
    """

    class Config(VectorOptions):
        """Hyper-parameters of Deep Crossing."""

        sparse_feature_dim: int = Field(default=8, gt=0, description="width of an embedding")
        reg: float = Field(default=0.001, ge=0, description="L1 factor of the vectors")
        residual_unit_num: int = Field(default=4, gt=0, description="number of residual units")
        residual_w_dim: int = Field(default=128, gt=0, description="inner width of a unit")

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        fields = FieldEmbeddings(config, inputs=inputs, dim=config.sparse_feature_dim)
        super().__init__(fields, reg=config.reg)
        self.units = nn.Sequential(
            *(
                ResidualUnit(fields.out_dim, hidden_dim=config.residual_w_dim)
                for _ in range(config.residual_unit_num)
            )
        )
        self.out = scaled_linear(fields.out_dim, 1)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        x_BX = self.fields.vectors(batch).flatten(1)
        return click_outputs(self.out(self.units(x_BX)).squeeze(1))
