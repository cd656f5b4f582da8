"""Interests that evolve along a history."""

# Shape suffixes: B samples, L elements, D width.

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from fleetrec.core.batch import Batch, Inputs
from fleetrec.models import base
from fleetrec.models.fields import click_outputs
from fleetrec.models.history import History, HistoryEmbeddings, HistoryOptions
from fleetrec.nn.activation import ActivationName
from fleetrec.nn.gru import Gru
from fleetrec.nn.mlp import Mlp, scaled_linear
from fleetrec.tasks.binary import BinaryTask
from fleetrec.tasks.task import Outputs


class Model(base.Model):
    """DIEN: a GRU extracts interests, a second one models those that are relevant to the target.

    Zhou et al., "Deep Interest Evolution Network for Click-Through Rate Prediction", AAAI 2019. The
    auxiliary loss trains each interest to distinguish the next element from one of another sample.
    """

    class Config(HistoryOptions):
        """Hyper-parameters of DIEN."""

        act: ActivationName = Field(default="sigmoid", description="activation of hidden layers")
        fc_sizes: tuple[int, ...] = Field(default=(80, 40), description="widths of hidden layers")
        auxiliary_weight: float = Field(default=1.0, ge=0, description="of the auxiliary loss")

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        history = HistoryEmbeddings(config, inputs=inputs)
        super().__init__(tasks=[BinaryTask(label=history.label)])
        self.history = history
        self.auxiliary_weight = config.auxiliary_weight
        self.extract = Gru(history.dim, history.dim)
        self.match = scaled_linear(history.dim, history.dim, bias=False)
        self.evolve = Gru(history.dim, history.dim)
        self.mlp = Mlp(2 * history.dim, config.fc_sizes, activation=config.act)
        self.out = scaled_linear(self.mlp.out_dim, 1)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logit`` and ``predict``, the probability of a click."""
        history: History = self.history(batch)
        interests_BLD, _ = self.extract(history.x_BLD, history.mask_BL)
        scores_BL = (self.match(interests_BLD) * history.target_BD.unsqueeze(1)).sum(dim=2)
        lowest = torch.finfo(scores_BL.dtype).min
        attention_BL = torch.softmax(scores_BL.masked_fill(~history.mask_BL, lowest), dim=1)
        _, evolved_BD = self.evolve(interests_BLD, history.mask_BL, attention_BL)
        deep_B1 = self.out(self.mlp(torch.cat([evolved_BD, history.target_BD], dim=1)))
        return click_outputs(deep_B1.squeeze(1) + self.history.bias(batch))

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the mean log loss; in training, plus the auxiliary loss."""
        loss = super().loss(outputs, batch)
        if not (self.training and self.auxiliary_weight):
            return loss
        return loss + self.auxiliary_weight * self._auxiliary_loss(self.history(batch))

    def _auxiliary_loss(self, history: History) -> Tensor:
        interests_BLD, _ = self.extract(history.x_BLD, history.mask_BL)
        before_BLD, next_BLD = interests_BLD[:, :-1], history.x_BLD[:, 1:]
        other_BLD, is_other_BL = next_BLD.roll(1, dims=0), history.mask_BL[:, 1:].roll(1, dims=0)
        is_next_BL = history.mask_BL[:, 1:]
        liked_BL = (before_BLD * next_BLD).sum(dim=2)
        unliked_BL = (before_BLD * other_BLD).sum(dim=2)
        losses_BL = functional.softplus(-liked_BL) * is_next_BL
        losses_BL = losses_BL + functional.softplus(unliked_BL) * (is_next_BL & is_other_BL)
        return losses_BL.sum() / is_next_BL.sum().clamp(min=1)
