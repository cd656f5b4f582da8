"""Products of matrices, as exact as a run wants them, and the layers made of them."""

import copy

import pytest
import torch

from fleetrec._native import has_tiles, multiply
from fleetrec.nn.linear import Linear, set_matmul_precision
from fleetrec.nn.matmul import mm, num_pieces_of, takes_tiles
from fleetrec.nn.mlp import Mlp

needs_tiles = pytest.mark.skipif(not has_tiles(), reason="this processor has no tiles (AMX)")

# One number of bfloat16 leaves 2^-8 of a float32; two leave 2^-16, and the product of the smaller;
# three leave nothing, but what sums are rounded to.
WORST = {1: 2.01 * 2**-8, 2: 3.01 * 2**-16, 3: 3e-7}


def _matrix(num_rows, num_columns, *, is_turned=False):
    """Return a slice of a larger one, in memory by rows or by columns."""
    if is_turned:
        return _matrix(num_columns, num_rows).t()
    return torch.randn(num_rows, num_columns + 3)[:, 2:-1]


def _worst_error(c, a, b):
    sizes = a.double().abs() @ b.double().abs()
    return ((c - a.double() @ b.double()).abs() / sizes).max().item()


@needs_tiles
@pytest.mark.parametrize("num_pieces", [1, 2, 3])
@pytest.mark.parametrize("shape", [(512, 512, 256), (600, 1000, 130), (2000, 550, 64)])
@pytest.mark.parametrize("is_a_turned", [False, True])
@pytest.mark.parametrize("is_b_turned", [False, True])
def test_a_product_is_as_exact_as_its_pieces(num_pieces, shape, is_a_turned, is_b_turned):
    torch.manual_seed(0)
    num_rows, depth, num_columns = shape
    a = _matrix(num_rows, depth, is_turned=is_a_turned)
    b = _matrix(depth, num_columns, is_turned=is_b_turned)
    product = mm(a, b, num_pieces=num_pieces)
    assert WORST[num_pieces] / 1000 < _worst_error(product, a, b) < WORST[num_pieces]
    out = _matrix(num_rows, num_columns)
    assert mm(a, b, num_pieces=num_pieces, out=out) is out
    assert torch.equal(out, product)
    assert mm(a, b, num_pieces=num_pieces, out=out, adds=True) is out
    torch.testing.assert_close(out, 2 * product, atol=1e-3, rtol=0)


@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_the_environment_can_switch_tiles_off(monkeypatch, precision):
    assert (num_pieces_of(precision) is not None) is has_tiles()
    monkeypatch.setenv("FLEETREC_TILES", "0")
    assert num_pieces_of(precision) is None


@needs_tiles
def test_three_pieces_are_no_less_exact_than_torch():
    torch.manual_seed(0)
    a, b = torch.randn(512, 500), torch.randn(500, 400)
    by_tiles, by_torch = mm(a, b, num_pieces=3), torch.mm(a, b)
    want = a.double() @ b.double()
    assert not torch.equal(by_tiles, by_torch)
    assert (by_tiles - want).norm() < 1.1 * (by_torch - want).norm()


def test_without_tiles_products_are_torchs():
    a, b = torch.randn(512, 512), torch.randn(512, 512)
    assert torch.equal(mm(a, b, num_pieces=None), torch.mm(a, b))
    out = torch.ones(512, 512)
    added = mm(a, b, num_pieces=None, out=out, adds=True)
    assert torch.equal(added, torch.ones(512, 512).addmm_(a, b))


def test_small_products_are_torchs():
    assert takes_tiles(2, 512, 64, 64)
    assert not takes_tiles(2, 511, 64, 64)
    assert not takes_tiles(2, 100_000, 63, 64)
    assert takes_tiles(3, 1 << 14, 64, 64)
    assert not takes_tiles(3, (1 << 14) - 1, 64, 64)
    a, b = torch.randn(300, 60), torch.randn(60, 300)
    assert torch.equal(mm(a, b, num_pieces=2), torch.mm(a, b))


def test_a_matrix_with_gaps_between_numbers_is_torchs():
    a, b = torch.randn(512, 512)[::2, ::2], torch.randn(256, 256)
    assert torch.equal(mm(a, b, num_pieces=1), torch.mm(a, b))


@needs_tiles
def test_shapes_that_do_not_fit_are_refused():
    a = torch.ones(2, 3).numpy()
    with pytest.raises(ValueError, match="shapes of the matrices do not fit"):
        multiply(a, a, torch.ones(2, 3).numpy(), num_pieces=2)


def _outputs_and_gradients(module, x):
    x = x.clone().requires_grad_()
    y = module(x)
    weights = torch.linspace(-1, 1, y.numel()).reshape(y.shape)
    learning = [own for own in module.parameters() if own.requires_grad]
    return [y, *torch.autograd.grad((y * weights).sum(), [x, *learning])]


def _assert_near(got, want):
    for own, other in zip(got, want, strict=True):
        assert (own - other).norm() < 1e-4 * other.norm()


def _of(module, precision):
    other = copy.deepcopy(module)
    set_matmul_precision(other, precision)
    return other


@needs_tiles
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(600, 70), (30, 20, 70)])
def test_a_linear_layer_is_torchs_as_exact_as_wanted(bias, shape):
    torch.manual_seed(0)
    layer, x = Linear(70, 90, bias=bias), torch.randn(*shape)
    want = _outputs_and_gradients(layer, x)
    got = _outputs_and_gradients(_of(layer, "high"), x)
    _assert_near(got, want)
    assert not torch.equal(got[0], want[0])


@needs_tiles
@torch.no_grad()
def test_a_linear_layer_heeds_precision_in_evaluation():
    layer, x = Linear(70, 90), torch.randn(600, 70)
    got = _of(layer, "high")(x)
    _assert_near([got], [layer(x)])
    assert not torch.equal(got, layer(x))


@needs_tiles
def test_only_what_learns_in_a_linear_layer_gets_a_gradient():
    layer = _of(Linear(70, 90), "high")
    layer.weight.requires_grad = False
    layer(torch.randn(600, 70)).sum().backward()
    assert layer.weight.grad is None
    torch.testing.assert_close(layer.bias.grad, torch.full((90,), 600.0))


@needs_tiles
@pytest.mark.parametrize("options", [{}, {"batch_norm": True}, {"activation": "tanh"}])
@pytest.mark.parametrize("is_training", [False, True])
def test_layers_of_an_mlp_heed_precision(options, is_training):
    torch.manual_seed(0)
    mlp = Mlp(100, (80, 70), **options).train(is_training)
    x = torch.randn(600, 100)
    parts = [x[:, :90], x[:, 90:]]
    want, got = mlp.of_parts(parts), _of(mlp, "high").of_parts(parts)
    _assert_near([got], [want])
    assert not torch.equal(got, want)


@needs_tiles
def test_what_is_exported_is_torchs():
    layer = _of(Linear(70, 90), "medium")
    x = torch.randn(600, 70)
    program = torch.export.export(layer, (x,)).module()
    want = torch.nn.functional.linear(x, layer.weight, layer.bias)
    assert torch.equal(program(x), want)
    assert not torch.equal(layer(x), want)
