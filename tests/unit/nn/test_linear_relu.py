"""Linear layers and their ReLUs in one."""

import pytest
import torch

from fleetrec.nn.linear import Linear
from fleetrec.nn.linear_relu import linear_relus
from fleetrec.nn.mlp import Mlp


def _gradients(y, inputs):
    weights = torch.linspace(-1, 1, y.numel()).reshape(y.shape)
    return torch.autograd.grad((y * weights).sum(), inputs)


@pytest.mark.parametrize("widths", [(5,), (5, 2), (1, 1, 4), (100, 3)])
@pytest.mark.parametrize("num_samples", [0, 1, 130])
@pytest.mark.parametrize("num_layers", [1, 3])
def test_they_are_what_torch_makes_of_linear_and_relu(widths, num_samples, num_layers):
    torch.manual_seed(0)
    layers = [Linear(sum(widths), 70), Linear(70, 50), Linear(50, 33)][:num_layers]
    parts = [torch.randn(num_samples, width, requires_grad=True) for width in widths]
    inputs = [*parts, *(weight for layer in layers for weight in layer.parameters())]
    want = torch.cat(parts, dim=1)
    for layer in layers:
        want = torch.relu(layer(want))
    got = linear_relus(parts, layers)
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(_gradients(got, inputs), _gradients(want, inputs))


@pytest.mark.parametrize("width", [1, 16, 33])
@pytest.mark.parametrize("num_samples", [0, 1, 130])
@pytest.mark.parametrize("num_layers", [1, 2])
def test_a_head_of_one_output_is_computed_with_them(width, num_samples, num_layers):
    torch.manual_seed(0)
    layers = [Linear(3, width), Linear(width, width)][:num_layers]
    head = Linear(width, 1)
    x = torch.randn(num_samples, 3, requires_grad=True)
    inputs = [x, *(weight for layer in (*layers, head) for weight in layer.parameters())]
    want = x
    for layer in layers:
        want = torch.relu(layer(want))
    want = head(want).squeeze(1)
    got = linear_relus([x], layers, head)
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(_gradients(got, inputs), _gradients(want, inputs))


def test_the_gradient_that_comes_stays_what_it_is():
    layers = [Linear(3, 4), Linear(4, 2)]
    grad = torch.randn(5, 2)
    before = grad.clone()
    linear_relus([torch.randn(5, 3)], layers).backward(grad)
    assert torch.equal(grad, before)


def test_only_what_learns_gets_a_gradient():
    linear = Linear(3, 2)
    linear.weight.requires_grad = False
    x = torch.randn(4, 3)
    linear_relus([x], [linear]).sum().backward()
    assert (x.grad, linear.weight.grad) == (None, None)
    assert linear.bias.grad is not None
    head = Linear(2, 1)
    head.weight.requires_grad = False
    linear_relus([x], [linear], head).sum().backward()
    assert head.weight.grad is None
    assert head.bias.grad.tolist() == [4.0]


def test_gradients_may_lie_apart():
    torch.manual_seed(0)
    linear = Linear(3, 2)
    x = torch.randn(4, 3)
    weights = torch.randn(2, 4)
    (linear_relus([x], [linear]).t() * weights).sum().backward()
    want = torch.autograd.grad((torch.relu(linear(x)).t() * weights).sum(), [linear.weight])[0]
    torch.testing.assert_close(linear.weight.grad, want)


def test_what_is_not_a_number_is_not_hidden():
    linear = Linear(3, 2)
    y = linear_relus([torch.full((1, 3), torch.nan)], [linear])
    assert y.isnan().all()


def test_an_mlp_learns_with_it_and_is_exported_without():
    torch.manual_seed(0)
    mlp = Mlp(3, [4, 2])
    x = torch.randn(5, 3)
    learning = mlp(x)
    assert learning.grad_fn.name() == "_LinearRelusBackward"
    mlp.eval()
    torch.testing.assert_close(mlp(x), learning)
    graph = torch.export.export(mlp, (x,)).graph
    names = {str(node.target) for node in graph.nodes if node.op == "call_function"}
    assert names == {"aten.linear.default", "aten.relu.default"}


def test_an_mlp_and_its_head_learn_together_and_judge_apart():
    torch.manual_seed(0)
    mlp, head = Mlp(3, [4, 2]), Linear(2, 1)
    x = torch.randn(5, 3)
    learning = mlp.logit_of_parts([x[:, :2], x[:, 2:]], head)
    assert learning.grad_fn.name() == "_LinearRelusBackward"
    mlp.eval()
    torch.testing.assert_close(mlp.logit_of_parts([x], head), learning)
    assert Mlp(3, []).logit_of_parts([x], Linear(3, 1)).shape == (5,)


def test_nobody_goes_back_twice_through_a_head():
    logit = linear_relus([torch.randn(5, 3)], [Linear(3, 4)], Linear(4, 1))
    logit.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        logit.sum().backward()
