"""Layers with activations of their own."""

import pytest
import torch

from fleetrec.nn.tower import Tower


def test_every_layer_has_its_activation():
    tower = Tower(3, (4, 2), acts=("tanh", "relu"))
    x = torch.randn(5, 3)
    expected = torch.relu(tower[2](torch.tanh(tower[0](x))))
    torch.testing.assert_close(tower(x), expected)
    assert tower.out_dim == 2


def test_a_layer_without_an_activation_is_refused():
    with pytest.raises(ValueError, match="2 layers need as many activations, got 1"):
        Tower(3, (4, 2), acts=("tanh",))
