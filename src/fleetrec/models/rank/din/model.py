"""Deep interest network: attention of the target over a history."""

# Shape suffixes: B samples, L elements, D width.

import torch
from pydantic import Field
from torch import Tensor

from fleetrec.core.batch import Batch, Inputs
from fleetrec.models import base
from fleetrec.models.fields import click_outputs
from fleetrec.models.history import HistoryEmbeddings, HistoryOptions
from fleetrec.nn.activation import ActivationName
from fleetrec.nn.mlp import Mlp, scaled_linear
from fleetrec.nn.target_attention import TargetAttention
from fleetrec.tasks.binary import BinaryTask


class Model(base.Model):
    """DIN: an attention unit weights each element of the history by the target.

    Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018.
    """

    class Config(HistoryOptions):
        """Hyper-parameters of DIN."""

        act: ActivationName = Field(default="sigmoid", description="activation of hidden layers")
        attention_sizes: tuple[int, ...] = Field(
            default=(80, 40), description="widths of the attention unit"
        )
        fc_sizes: tuple[int, ...] = Field(default=(80, 40), description="widths of hidden layers")

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        history = HistoryEmbeddings(config, inputs=inputs)
        super().__init__(tasks=[BinaryTask(label=history.label)])
        self.history = history
        self.attention = TargetAttention(
            history.dim, hidden=config.attention_sizes, activation=config.act
        )
        self.mlp = Mlp(2 * history.dim, config.fc_sizes, activation=config.act)
        self.out = scaled_linear(self.mlp.out_dim, 1)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        history = self.history(batch)
        interest_BD = self.attention(history.target_BD, history.x_BLD, history.mask_BL)
        deep_B1 = self.out(self.mlp(torch.cat([interest_BD, history.target_BD], dim=1)))
        return click_outputs(deep_B1.squeeze(1) + self.history.bias(batch))
