import torch
from torch import nn

from fleetrec.nn.gradient_clip import clip_gradients


def test_only_gradients_with_a_large_norm_are_scaled_down():
    layer = nn.Linear(2, 1)
    clip_gradients(layer, max_norm=2.0)
    layer(torch.tensor([[3.0, 4.0]])).sum().backward()
    torch.testing.assert_close(layer.weight.grad, torch.tensor([[1.2, 1.6]]))
    assert layer.bias.grad.tolist() == [1.0]
