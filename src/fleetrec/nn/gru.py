"""Recurrent networks over histories of different lengths."""

# Shape suffixes: B samples, L elements, D input width, H hidden width, G three gates (3 H).

import torch
from torch import Tensor, nn

from fleetrec.nn.mlp import scaled_linear


class Gru(nn.Module):
    """h_l = (1 - u_l) h_{l-1} + u_l tanh(W_n x_l + r_l * U_n h_{l-1}), the gated recurrent unit.

    The gates are u_l = sigmoid(W_u x_l + U_u h_{l-1}) and r_l = sigmoid(W_r x_l + U_r h_{l-1}),
    all with biases. With attention, u_l becomes a_l u_l, so that unimportant elements do not change
    the state: AUGRU of Zhou et al., "Deep Interest Evolution Network for Click-Through Rate
    Prediction", AAAI 2019. Padding leaves the state as it is.
    """

    def __init__(self, in_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.hidden_dim = hidden_dim
        self.of_input = scaled_linear(in_dim, 3 * hidden_dim)
        self.of_state = scaled_linear(hidden_dim, 3 * hidden_dim)

    def forward(
        self, x_BLD: Tensor, mask_BL: Tensor, attention_BL: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the states after each element, BLH, and the last one, BH; zeros for an empty list.

        ``mask_BL`` is true where there is an element.
        """
        # Padding has an update gate of 0.
        updates_BL = mask_BL.to(x_BLD.dtype)
        if attention_BL is not None:
            updates_BL = updates_BL * attention_BL
        inputs_LBG = self.of_input(x_BLD).transpose(0, 1)
        updates_LB1 = updates_BL.transpose(0, 1).unsqueeze(2)
        state_BH = x_BLD.new_zeros(x_BLD.shape[0], self.hidden_dim)
        if torch.compiler.is_exporting():  # a loop in the graph, for any length
            from torch._higher_order_ops import scan

            state_BH, states_LBH = scan(self._step, state_BH, (inputs_LBG, updates_LB1))
            return states_LBH.transpose(0, 1), state_BH
        states = []
        for inputs in zip(inputs_LBG, updates_LB1, strict=True):
            state_BH, _ = self._step(state_BH, inputs)
            states.append(state_BH)
        if not states:
            return x_BLD.new_zeros(x_BLD.shape[0], 0, self.hidden_dim), state_BH
        return torch.stack(states, dim=1), state_BH

    def _step(self, state_BH: Tensor, inputs: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        inputs_BG, update_B1 = inputs
        reset_x, gate_x, new_x = inputs_BG.chunk(3, dim=1)
        reset_h, gate_h, new_h = self.of_state(state_BH).chunk(3, dim=1)
        gate_BH = torch.sigmoid(gate_x + gate_h) * update_B1
        new_BH = torch.tanh(new_x + torch.sigmoid(reset_x + reset_h) * new_h)
        state_BH = (1 - gate_BH) * state_BH + gate_BH * new_BH
        return state_BH, state_BH.clone()
