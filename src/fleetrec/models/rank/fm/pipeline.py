"""``model_class: "FM"``: groups ``wide`` and ``deep``."""

# Shape suffixes: B samples, F features, D width.

from torch import Tensor

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.message import Message, idle
from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.group_model import GroupModel
from fleetrec.nn.fm import FactorizationMachine
from fleetrec.nn.linear_terms import LinearTerms


class FmMessage(Message):
    """``fm``."""

    l2_regularization: float = idle(default=1e-4)


class Model(GroupModel):
    """Wide terms and the products of all pairs of vectors."""

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        fm: FmMessage | None = None

    model_class = "FM"
    message = "fm"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        if config.num_class != 1:
            raise ValueError(f"FM learns one logit, but num_class is {config.num_class}")
        super().__init__(config, l2=0.0)
        self.inputs.common_dim("deep")
        self.inputs.dim("wide")
        self.linear = LinearTerms()
        self.fm = FactorizationMachine()

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return logits and probabilities, or the predicted value of a regression."""
        first_B = self.linear(self.inputs.stack(batch, "wide").squeeze(2))
        logit_B = first_B + self.fm(self.inputs.stack(batch, "deep"))
        return self.outputs(logit_B.unsqueeze(1))
