"""``model_class: "CMBF"``: groups ``image``, ``text``, ``general`` and ``other``."""

from pydantic import Field
from torch import Tensor

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.message import Message
from fleetrec.config.pipeline_dialect.model import Dnn
from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.group_model import GroupModel, mlp_of, needed
from fleetrec.models.rank.cmbf.network import CmbfNetwork, CmbfTower
from fleetrec.nn.mlp import scaled_linear


class CmbfMessage(Message):
    """``cmbf``."""

    config: CmbfTower
    final_dnn: Dnn
    l2_regularization: float = Field(default=0.0, ge=0)


class Model(GroupModel):
    """Images and texts that attend to each other, and an MLP."""

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        cmbf: CmbfMessage | None = None

    model_class = "CMBF"
    message = "cmbf"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        options = needed(config.cmbf, "cmbf")
        super().__init__(config, l2=options.l2_regularization)
        self.network = CmbfNetwork(options.config, self.inputs)
        self.final = mlp_of(options.final_dnn, self.network.out_dim)
        self.out = scaled_linear(self.final.out_dim, config.num_class)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return logits and probabilities, or the predicted value of a regression."""
        return self.outputs(self.out(self.final(self.network(self.inputs, batch))))
