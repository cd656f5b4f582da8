"""Two MLPs over the input, each with its own feature gate."""

# Shape suffixes: B samples, X all vectors side by side, C vectors of the context.

from pydantic import Field
from torch import Tensor

from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.fields import FieldEmbeddings, FieldModel, VectorOptions, click_outputs
from fleetrec.nn.bilinear_fusion import BilinearFusion
from fleetrec.nn.feature_selection import FeatureSelection
from fleetrec.nn.mlp import Mlp


class Model(FieldModel):
    """FinalMLP: two MLPs over differently gated features, fused by a bilinear form.

    Mao et al., "FinalMLP: An Enhanced Two-Stream MLP Model for CTR Prediction", AAAI 2023.
    """

    class Config(VectorOptions):
        """Hyper-parameters of FinalMLP."""

        mlp1_sizes: tuple[int, ...] = Field(
            default=(400, 400, 400), description="widths of the first stream"
        )
        mlp2_sizes: tuple[int, ...] = Field(
            default=(400, 400, 400), description="widths of the second stream"
        )
        num_heads: int = Field(default=2, gt=0, description="heads of the fusion")
        gate_sizes: tuple[int, ...] = Field(default=(64,), description="hidden widths of a gate")
        context1: tuple[str, ...] = Field(
            default=(), description="input slots of the first gate; a learned vector if none"
        )
        context2: tuple[str, ...] = Field(
            default=(), description="input slots of the second gate; a learned vector if none"
        )
        dropout_rate: float = Field(
            default=0.0, ge=0, lt=1, description="dropout probability of hidden values"
        )

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        fields = FieldEmbeddings(config, inputs=inputs, dim=config.sparse_feature_dim)
        super().__init__(fields)
        self.contexts = [fields.places(config.context1), fields.places(config.context2)]
        self.gate1, self.gate2 = (
            FeatureSelection(
                fields.out_dim, context_dim=len(places) * fields.dim, hidden=config.gate_sizes
            )
            for places in self.contexts
        )
        self.mlp1 = Mlp(fields.out_dim, config.mlp1_sizes, dropout=config.dropout_rate)
        self.mlp2 = Mlp(fields.out_dim, config.mlp2_sizes, dropout=config.dropout_rate)
        self.fusion = BilinearFusion(
            self.mlp1.out_dim, self.mlp2.out_dim, num_heads=config.num_heads
        )

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        x_BFD = self.fields.vectors(batch)
        x_BX = x_BFD.flatten(1)
        context1, context2 = (x_BFD[:, f].flatten(1) if f else None for f in self.contexts)
        left_BX = self.mlp1(self.gate1(x_BX, context1))
        right_BX = self.mlp2(self.gate2(x_BX, context2))
        return click_outputs(self.fusion(left_BX, right_BX))
