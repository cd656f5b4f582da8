"""A gated network over the graph of a session."""

# Shape suffixes: B samples, L elements, D width, G three gates (3 D).

import torch
from torch import Tensor, nn

from fleetrec.nn.mlp import scaled_linear

COMPARED = 4  # weights of two rows that are compared to see whether they are of one item


class SessionGraph(nn.Module):
    """h = GRU([A_in (W_in h + b_in), A_out (W_out h + b_out)], h), some times.

    The nodes are the items of a session and an edge leads from each to the next one; A_in and A_out
    weight an edge by how often it occurs, divided by those that enter or leave its item. Every
    element of the session has the state of its item. Wu et al., "Session-based Recommendation with
    Graph Neural Networks", AAAI 2019.
    """

    def __init__(self, dim: int, *, num_steps: int) -> None:
        super().__init__()
        self.num_steps = num_steps
        self.enter = scaled_linear(dim, dim)
        self.leave = scaled_linear(dim, dim)
        self.of_input = scaled_linear(2 * dim, 3 * dim)
        self.of_state = scaled_linear(dim, 3 * dim)

    def forward(self, x_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        """Return the states of the elements, BLD."""
        enter_BLL, leave_BLL = self._edges(x_BLD, mask_BL)
        state_BLD = x_BLD
        for _ in range(self.num_steps):
            entering_BLD = enter_BLL @ self.enter(state_BLD)
            leaving_BLD = leave_BLL @ self.leave(state_BLD)
            inputs_BLG = self.of_input(torch.cat([entering_BLD, leaving_BLD], dim=2))
            reset_x, gate_x, new_x = inputs_BLG.chunk(3, dim=2)
            reset_h, gate_h, new_h = self.of_state(state_BLD).chunk(3, dim=2)
            gate_BLD = torch.sigmoid(gate_x + gate_h)
            new_BLD = torch.tanh(new_x + torch.sigmoid(reset_x + reset_h) * new_h)
            state_BLD = (1 - gate_BLD) * state_BLD + gate_BLD * new_BLD
        return state_BLD

    def _edges(self, x_BLD: Tensor, mask_BL: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weights of the elements before and after those of the same item."""
        some = x_BLD[:, :, :COMPARED]
        is_equal = (some.unsqueeze(1) - some.unsqueeze(2)).abs().sum(dim=3) == 0
        same_BLL = (is_equal & mask_BL.unsqueeze(1) & mask_BL.unsqueeze(2)).to(x_BLD.dtype)
        has_next_BL = torch.cat([mask_BL[:, 1:], torch.zeros_like(mask_BL[:, :1])], dim=1)
        nothing_BL1 = torch.zeros_like(same_BLL[:, :, :1])
        # Element t of the same item enters from t - 1 and leads to t + 1.
        enter_BLL = torch.cat([same_BLL[:, :, 1:], nothing_BL1], dim=2)
        leaving_BLL = same_BLL * has_next_BL.unsqueeze(1)
        leave_BLL = torch.cat([nothing_BL1, leaving_BLL[:, :, :-1]], dim=2)
        return _shares(enter_BLL), _shares(leave_BLL)


def _shares(weights_BLL: Tensor) -> Tensor:
    return weights_BLL / weights_BLL.sum(dim=2, keepdim=True).clamp(min=1)
