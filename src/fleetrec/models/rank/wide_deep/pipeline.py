"""``model_class: "WideAndDeep"``: groups ``wide`` and ``deep``."""

# Shape suffixes: B samples, F features, W width of wide terms, X width.

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.message import Message
from fleetrec.config.pipeline_dialect.model import Dnn
from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.group_model import GroupModel, mlp_of, needed
from fleetrec.nn.mlp import scaled_linear

WIDE, DEEP = "wide", "deep"


class WideAndDeepMessage(Message):
    """``wide_and_deep``."""

    wide_output_dim: int = Field(default=1, gt=0)
    dnn: Dnn
    final_dnn: Dnn | None = None
    l2_regularization: float = Field(default=1e-4, ge=0)


class Model(GroupModel):
    """Wide terms and an MLP, added up, or the input of one more MLP.

    Of two optimizers, the first updates the wide part only; of three, the second updates the tables
    of the deep part.
    """

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        wide_and_deep: WideAndDeepMessage | None = None

    model_class = "WideAndDeep"
    message = "wide_and_deep"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        options = needed(config.wide_and_deep, "wide_and_deep")
        wide_dim = options.wide_output_dim
        if options.final_dnn is None and wide_dim not in (1, config.num_class):
            raise ValueError(f"wide_output_dim {wide_dim} needs a final_dnn; without, it is 1")
        groups = [group.name for group in config.groups if group.name != WIDE]
        super().__init__(
            config, l2=options.l2_regularization, wide_dim=wide_dim, second_optimizer=groups
        )
        self.inputs.dim(WIDE)
        self.mlp = mlp_of(options.dnn, self.inputs.dim(DEEP))
        self.final = None
        if options.final_dnn is not None:
            self.final = mlp_of(options.final_dnn, wide_dim + self.mlp.out_dim)
        last = self.mlp if self.final is None else self.final
        self.out = scaled_linear(last.out_dim, config.num_class)

    def scopes(self) -> Mapping[str, str]:
        """Return the user-visible names of parts of the network."""
        return {"mlp": "deep_feature", "final": "final_dnn", "out": "output"}

    def optimizer_of(self, variable: str, *, num_optimizers: int) -> int:
        """Assign the wide part, the deep tables and the rest to up to three optimizers."""
        tables = self.inputs.embeddings.tables
        if variable in tables and tables[variable].optimizer_group == 0:
            return 0
        is_of_inputs = variable in tables or variable.startswith("inputs.")
        return 1 if is_of_inputs else num_optimizers - 1

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return logits and probabilities, or the predicted value of a regression."""
        wide_BW = self.inputs.stack(batch, WIDE).sum(dim=1)
        h_BX = self.mlp(self.inputs.cat(batch, DEEP))
        if self.final is None:
            return self.outputs(wide_BW + self.out(h_BX))
        return self.outputs(self.out(self.final(torch.cat([wide_BW, h_BX], dim=1))))
