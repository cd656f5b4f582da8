"""Field-aware factorization machine."""

# Shape suffixes: B samples, F fields, D width, X all vectors of a field (F D).

import torch
from torch import Tensor

from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.fields import (
    FactorOptions,
    FieldEmbeddings,
    FieldModel,
    click_outputs,
    num_fields,
)
from fleetrec.nn.ffm import FieldAwareInteraction
from fleetrec.nn.linear_terms import LinearTerms


class Model(FieldModel):
    """FFM: an id has one vector for each other field.

    Juan, Zhuang, Chin and Lin, "Field-aware Factorization Machines for CTR Prediction",
    RecSys 2016.
    """

    class Config(FactorOptions):
        """Hyper-parameters of FFM."""

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        row_dim = num_fields(inputs) * config.sparse_feature_dim
        fields = FieldEmbeddings(config, inputs=inputs, dim=row_dim, first_order=True)
        super().__init__(fields, reg=config.reg)
        self.linear = LinearTerms()
        self.ffm = FieldAwareInteraction()

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        first_B = self.linear(self.fields.first_order(batch))
        x_BFX = self.fields.vectors(batch)
        x_BFFD = torch.unflatten(x_BFX, 2, (self.fields.num_fields, -1))
        return click_outputs(first_B + self.ffm(x_BFFD))
