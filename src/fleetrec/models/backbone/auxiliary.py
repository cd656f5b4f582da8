"""A loss between two blocks."""

from torch import Tensor, nn

from fleetrec.config.pipeline_dialect.layers import AuxiliaryLossMessage
from fleetrec.models.backbone.values import Value, pair
from fleetrec.nn.contrastive import info_nce, l2_distance, nce


class AuxiliaryLoss(nn.Module):
    """Compares two inputs in training; ``name`` is that of the loss."""

    def __init__(self, message: AuxiliaryLossMessage) -> None:
        super().__init__()
        self.name = message.loss_type
        self._weight, self._temperature = message.loss_weight, message.temperature

    def forward(self, value: Value) -> Tensor:
        """Return the weighted loss."""
        left_BD, right_BD = pair(value)
        if self.name == "l2_loss":
            loss = l2_distance(left_BD, right_BD)
        elif self.name == "info_nce":
            loss = info_nce(left_BD, right_BD, temperature=self._temperature)
        else:
            loss = nce(left_BD, right_BD, temperature=self._temperature)
        return self._weight * loss
