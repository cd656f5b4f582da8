"""``model_class: "DeepFM"``: groups ``wide``, ``deep`` and, if it is not the same, ``fm``."""

# Shape suffixes: B samples, F features, W width of wide terms, D width, X width, K classes.

from collections.abc import Mapping

from pydantic import Field
from torch import Tensor

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.message import Message, idle
from fleetrec.config.pipeline_dialect.model import Dnn
from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.group_model import GroupModel, mlp_of, needed
from fleetrec.models.rank.deepfm.network import DeepFm


class DeepFmMessage(Message):
    """``deepfm``."""

    dnn: Dnn
    final_dnn: Dnn | None = None
    wide_output_dim: int = Field(default=1, gt=0)
    wide_regularization: float = idle(default=1e-4)
    dense_regularization: float = idle(default=1e-4)
    l2_regularization: float = Field(default=1e-4, ge=0)


class Model(GroupModel):
    """The network of rank/deepfm over groups of features."""

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        deepfm: DeepFmMessage | None = None

    model_class = "DeepFM"
    message = "deepfm"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        options = needed(config.deepfm, "deepfm")
        wide_dim = options.wide_output_dim
        super().__init__(config, l2=options.l2_regularization, wide_dim=wide_dim)
        self._fm_group = "fm" if "fm" in self.inputs else "deep"
        dim = self.inputs.common_dim(self._fm_group)
        self.inputs.dim("wide")
        mlp = mlp_of(options.dnn, self.inputs.dim("deep"))
        final = None
        if options.final_dnn is not None:
            width = DeepFm.final_dim(mlp, wide_dim=wide_dim, dim=dim)
            final = mlp_of(options.final_dnn, width)
        self.network = DeepFm(mlp, num_class=config.num_class, wide_dim=wide_dim, final=final)

    def scopes(self) -> Mapping[str, str]:
        """Return the user-visible names of parts of the network."""
        return {
            "network.mlp": "deep_feature",
            "network.final": "final_dnn",
            "network.out": "output",
            "network.linear": "wide",
        }

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return logits and probabilities, or the predicted value of a regression."""
        terms_BFW = self.inputs.stack(batch, "wide")
        x_BFD = self.inputs.stack(batch, self._fm_group)
        logits_BK = self.network(terms_BFW, x_BFD, self.inputs.cat(batch, "deep"))
        return self.outputs(logits_BK)
