"""Interactions between and within groups of fields."""

# Shape suffixes: B samples, F fields, D width.

import torch
from pydantic import Field
from torch import Tensor

from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.fields import FieldEmbeddings, FieldModel, VectorOptions, click_outputs
from fleetrec.nn.group_interaction import GroupInteraction
from fleetrec.nn.linear_terms import LinearTerms
from fleetrec.nn.mlp import Mlp, scaled_linear


class Model(FieldModel):
    """FLEN: products between groups of fields and within them, in parallel with an MLP.

    Chen et al., "FLEN: Leveraging Field for Scalable CTR Prediction", DLP-KDD 2020. The group of a
    slot is its name up to the last underscore: user_0 and user_1 are of one group.
    """

    class Config(VectorOptions):
        """Hyper-parameters of FLEN."""

        sparse_feature_number: int = Field(default=100, gt=0, description="ids in a table")
        sparse_feature_dim: int = Field(default=8, gt=0, description="width of an embedding")
        dropout_rate: float = Field(
            default=0.5, ge=0, lt=1, description="dropout probability of products"
        )
        fc_sizes: tuple[int, ...] = Field(
            default=(64, 32), description="widths of the hidden layers"
        )

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        dim = config.sparse_feature_dim
        fields = FieldEmbeddings(config, inputs=inputs, dim=dim, first_order=True)
        super().__init__(fields)
        groups = [name.rpartition("_")[0] or name for name in fields.names]
        sizes = {group: groups.count(group) for group in groups}
        # Fields of one group are adjacent.
        self.order = sorted(range(len(groups)), key=lambda f: list(sizes).index(groups[f]))
        self.linear = LinearTerms()
        self.interaction = GroupInteraction(list(sizes.values()), dropout=config.dropout_rate)
        self.mlp = Mlp(fields.out_dim, config.fc_sizes)
        self.out = scaled_linear(dim + self.mlp.out_dim, 1, bias=False)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        x_BFD = self.fields.vectors(batch)
        h_BX = torch.cat(
            [self.interaction(x_BFD[:, self.order]), self.mlp(x_BFD.flatten(1))], dim=1
        )
        first_B = self.linear(self.fields.first_order(batch))
        return click_outputs(first_B + self.out(h_BX).squeeze(1))
