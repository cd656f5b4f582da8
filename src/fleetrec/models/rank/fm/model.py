"""Factorization machine."""

# Shape suffixes: B samples, F fields, D width.

from torch import Tensor

from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.fields import FactorOptions, FieldEmbeddings, FieldModel, click_outputs
from fleetrec.nn.fm import FactorizationMachine
from fleetrec.nn.linear_terms import LinearTerms


class Model(FieldModel):
    """FM: first-order weights plus the dot products of all pairs of vectors.

    Rendle, "Factorization Machines", ICDM 2010.
    """

    class Config(FactorOptions):
        """Hyper-parameters of FM."""

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        fields = FieldEmbeddings(
            config, inputs=inputs, dim=config.sparse_feature_dim, first_order=True
        )
        super().__init__(fields, reg=config.reg)
        self.linear = LinearTerms()
        self.fm = FactorizationMachine()

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        first_B = self.linear(self.fields.first_order(batch))
        return click_outputs(first_B + self.fm(self.fields.vectors(batch)))
