"""``model_class: "AutoInt"``: group ``all``, whose features attend to each other."""

# Shape suffixes: B samples, F features, D width.

from pydantic import Field
from torch import Tensor, nn

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.message import Message
from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.group_model import GroupModel, needed
from fleetrec.nn.field_attention import FieldAttention
from fleetrec.nn.mlp import scaled_linear

GROUP = "all"


class AutoIntMessage(Message):
    """``autoint``."""

    multi_head_num: int = Field(default=1, gt=0)
    multi_head_size: int = Field(gt=0)
    interacting_layer_num: int = Field(default=1, gt=0)
    l2_regularization: float = Field(default=1e-4, ge=0)


class Model(GroupModel):
    """The layers of rank/AutoInt over a group of features."""

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        autoint: AutoIntMessage | None = None

    model_class = "AutoInt"
    message = "autoint"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        options = needed(config.autoint, "autoint")
        super().__init__(config, l2=options.l2_regularization)
        dim, layers = self.inputs.common_dim(GROUP), []
        for _ in range(options.interacting_layer_num):
            layer = FieldAttention(
                dim,
                num_heads=options.multi_head_num,
                key_dim=options.multi_head_size,
                value_dim=options.multi_head_size,
            )
            dim = layer.out_dim
            layers.append(layer)
        self.layers = nn.Sequential(*layers)
        self.out = scaled_linear(self.inputs.num_vectors(GROUP) * dim, config.num_class)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return logits and probabilities, or the predicted value of a regression."""
        x_BFD = self.layers(self.inputs.stack(batch, GROUP))
        return self.outputs(self.out(x_BFD.flatten(1)))
