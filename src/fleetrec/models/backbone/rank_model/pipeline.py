"""``model_class: "RankModel"``: a backbone and one label."""

from torch import Tensor, nn

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.model_params import ModelParams
from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.backbone.model import BackboneModel
from fleetrec.models.backbone.values import matrix
from fleetrec.nn.mlp import scaled_linear


class Model(BackboneModel):
    """The output of the backbone is the logits; another width gets a linear layer first."""

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        model_params: ModelParams | None = None

    model_class = "RankModel"
    message = "model_params"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        super().__init__(config, config.model_params or ModelParams())
        width = self.backbone.out_dim or sum(self.backbone.out_dims)
        is_logits = width == config.num_class
        self.out = nn.Identity() if is_logits else scaled_linear(width, config.num_class)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return logits and probabilities, or the predicted value of a regression."""
        computed = self.compute(batch)
        return {**self.outputs(self.out(matrix(computed.value))), **computed.outputs()}
