"""Self-attention over fields."""

# Shape suffixes: B samples, F fields, D width.

from pydantic import Field
from torch import Tensor, nn

from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.fields import FieldEmbeddings, FieldModel, VectorOptions, click_outputs
from fleetrec.nn.field_attention import FieldAttention
from fleetrec.nn.mlp import scaled_linear


class Model(FieldModel):
    """AutoInt: layers in which fields attend to each other, with several heads.

    Song et al., "AutoInt: Automatic Feature Interaction Learning via Self-Attentive Neural
    Networks", CIKM 2019.
    """

    class Config(VectorOptions):
        """Hyper-parameters of AutoInt."""

        sparse_feature_dim: int = Field(default=96, gt=0, description="width of an embedding")
        n_interacting_layers: int = Field(default=1, gt=0, description="number of layers")
        n_head: int = Field(default=6, gt=0, description="heads of a layer")
        d_key: int = Field(default=16, gt=0, description="width of queries and keys of a head")
        d_value: int = Field(default=16, gt=0, description="width of the values of a head")
        d_model: int | None = Field(
            default=None, gt=0, description="if given, must equal n_head * d_value"
        )
        dropout_rate: float = Field(
            default=0.0, ge=0, lt=1, description="dropout probability of attention weights"
        )

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        width = config.n_head * config.d_value
        if config.d_model not in (None, width):
            raise ValueError(f"d_model says {config.d_model}, n_head * d_value is {width}")
        fields = FieldEmbeddings(config, inputs=inputs, dim=config.sparse_feature_dim)
        super().__init__(fields)
        self.layers = nn.Sequential(
            *(
                FieldAttention(
                    fields.dim if layer == 0 else width,
                    num_heads=config.n_head,
                    key_dim=config.d_key,
                    value_dim=config.d_value,
                    dropout=config.dropout_rate,
                )
                for layer in range(config.n_interacting_layers)
            )
        )
        self.out = scaled_linear(fields.num_fields * width, 1)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        x_BFD = self.layers(self.fields.vectors(batch))
        return click_outputs(self.out(x_BFD.flatten(1)).squeeze(1))
