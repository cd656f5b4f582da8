"""``model_class: "DLRM"``: groups ``dense`` and ``sparse``."""

# Shape suffixes: B samples, F features, D width, P pairs, X width.

from collections.abc import Mapping
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.message import Message
from fleetrec.config.pipeline_dialect.model import Dnn
from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.group_model import GroupModel, mlp_of, needed
from fleetrec.nn.dot_interaction import DotInteraction
from fleetrec.nn.mlp import scaled_linear


class DlrmMessage(Message):
    """``dlrm``."""

    top_dnn: Dnn
    bot_dnn: Dnn
    arch_interaction_op: Literal["dot", "cat"] = "dot"
    arch_interaction_itself: bool = False
    arch_with_dense_feature: bool = False
    l2_regularization: float = Field(default=1e-5, ge=0)


class Model(GroupModel):
    """Dense values become one more vector; an MLP takes the dot products of all vectors.

    With ``arch_interaction_op: "cat"`` it takes the vectors themselves.
    """

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        dlrm: DlrmMessage | None = None

    model_class = "DLRM"
    message = "dlrm"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        options = needed(config.dlrm, "dlrm")
        super().__init__(config, l2=options.l2_regularization)
        self._options = options
        dim = self.inputs.common_dim("sparse")
        num_vectors = self.inputs.num_vectors("sparse") + 1
        self.bottom = mlp_of(options.bot_dnn, self.inputs.dim("dense"))
        if self.bottom.out_dim != dim:
            raise ValueError(
                f"dlrm.bot_dnn must end in the embedding_dim of group sparse, {dim}, not in "
                f"{self.bottom.out_dim}"
            )
        self.dot = DotInteraction(num_vectors)
        width = num_vectors * dim
        if options.arch_interaction_op == "dot":
            width = self.dot.out_dim + options.arch_interaction_itself * num_vectors
        width += options.arch_with_dense_feature * self.inputs.dim("dense")
        self.top = mlp_of(options.top_dnn, width)
        self.out = scaled_linear(self.top.out_dim, config.num_class)

    def scopes(self) -> Mapping[str, str]:
        """Return the user-visible names of parts of the network."""
        return {"bottom": "bot_dnn", "top": "top_dnn", "out": "output"}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return logits and probabilities, or the predicted value of a regression."""
        dense_BX = self.inputs.cat(batch, "dense")
        bottom_BD = self.bottom(dense_BX)
        x_BFD = torch.cat([bottom_BD.unsqueeze(1), self.inputs.stack(batch, "sparse")], dim=1)
        parts = [x_BFD.flatten(1)]
        if self._options.arch_interaction_op == "dot":
            parts = [self.dot(x_BFD)]
            if self._options.arch_interaction_itself:
                parts.append(x_BFD.square().sum(dim=2))
        if self._options.arch_with_dense_feature:
            parts.append(dense_BX)
        return self.outputs(self.out(self.top(torch.cat(parts, dim=1))))
