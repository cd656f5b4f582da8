"""Logistic regression over fields."""

from pydantic import Field
from torch import Tensor

from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.fields import FieldEmbeddings, FieldModel, FieldOptions, click_outputs
from fleetrec.nn.linear_terms import LinearTerms


class Model(FieldModel):
    """Logistic regression: a weight for each id, times its value, and an L1 penalty."""

    class Config(FieldOptions):
        """Hyper-parameters of logistic regression."""

        reg: float = Field(default=0.001, ge=0, description="L1 factor of the weights")

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        fields = FieldEmbeddings(config, inputs=inputs, first_order=True)
        super().__init__(fields, reg=config.reg)
        self.linear = LinearTerms()

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        return click_outputs(self.linear(self.fields.first_order(batch)))
