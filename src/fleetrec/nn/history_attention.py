"""Attention of a key over a history, with weights that add up to one."""

# Shape suffixes: B samples, L elements of a history, D width of an element, X any width.

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fleetrec.config.groups import LayersOptions
from fleetrec.nn.mlp import Mlp, scaled_linear


class HistoryAttention(nn.Module):
    """softmax_l(MLP(q, x_l, q - x_l, q * x_l)) over the elements; zeros for an empty history.

    The last layer of ``layers`` has neither activation nor batch normalisation. Only elements
    count for batch normalisation, not the padding.
    """

    def __init__(self, dim: int, layers: LayersOptions) -> None:
        super().__init__()
        *hidden, last = layers.hidden
        if last != 1:
            raise ValueError(f"the last layer of an attention must have width 1, got {last}")
        self.mlp = Mlp(
            4 * dim,
            hidden,
            activation=layers.activation,
            batch_norm=layers.batch_norm,
            dropout=layers.dropout[: len(hidden)] or 0.0,
        )
        self.out = scaled_linear(self.mlp.out_dim, 1)

    def weights(self, key_BD: Tensor, history_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        """Return weights_BL; ``mask_BL`` is true where there is an element."""
        key_BLD = key_BD.unsqueeze(1).expand_as(history_BLD)
        parts = [key_BLD, history_BLD, key_BLD - history_BLD, key_BLD * history_BLD]
        x_BLX = torch.cat(parts, dim=2)
        if self.training:
            scores_N = self.out(self.mlp(x_BLX[mask_BL])).squeeze(1)
            empty_BL = torch.zeros(mask_BL.shape, dtype=scores_N.dtype, device=scores_N.device)
            scores_BL = empty_BL.masked_scatter(mask_BL, scores_N)
        else:
            scores_BL = self.out(self.mlp(x_BLX.flatten(0, 1))).reshape(mask_BL.shape)
        scores_BL = scores_BL.masked_fill(~mask_BL, torch.finfo(scores_BL.dtype).min)
        return torch.softmax(scores_BL, dim=1) * mask_BL

    def forward(
        self,
        key_BD: Tensor,
        history_BLD: Tensor,
        mask_BL: Tensor,
        aux: Sequence[Tensor] = (),
    ) -> Tensor:
        """Return the weighted sums of the history and of ``aux``, concatenated."""
        weights_BL1 = self.weights(key_BD, history_BLD, mask_BL).unsqueeze(2)
        return torch.cat([(weights_BL1 * x_BLD).sum(dim=1) for x_BLD in (history_BLD, *aux)], dim=1)
