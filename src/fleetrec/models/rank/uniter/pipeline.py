"""``model_class: "Uniter"``: groups ``image``, ``text``, ``general`` and ``other``."""

from pydantic import Field
from torch import Tensor

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.message import Message
from fleetrec.config.pipeline_dialect.model import Dnn
from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.group_model import GroupModel, mlp_of, needed
from fleetrec.models.rank.uniter.network import UniterNetwork, UniterTower
from fleetrec.nn.mlp import scaled_linear


class UniterMessage(Message):
    """``uniter``."""

    config: UniterTower
    final_dnn: Dnn
    l2_regularization: float = Field(default=0.0, ge=0)


class Model(GroupModel):
    """One transformer over images and texts, and an MLP."""

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        uniter: UniterMessage | None = None

    model_class = "Uniter"
    message = "uniter"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        options = needed(config.uniter, "uniter")
        super().__init__(config, l2=options.l2_regularization)
        self.network = UniterNetwork(options.config, self.inputs)
        self.final = mlp_of(options.final_dnn, self.network.out_dim)
        self.out = scaled_linear(self.final.out_dim, config.num_class)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return logits and probabilities, or the predicted value of a regression."""
        return self.outputs(self.out(self.final(self.network(self.inputs, batch))))
