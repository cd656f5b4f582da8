"""Layers over fields against their slow twins, in double precision."""

import numpy as np
import pytest
import torch

from fleetrec.nn.bi_interaction import BiInteraction
from fleetrec.nn.bilinear import BilinearInteraction
from fleetrec.nn.bilinear_fusion import BilinearFusion
from fleetrec.nn.cin import Cin
from fleetrec.nn.dot_interaction import DotInteraction
from fleetrec.nn.euler import EulerLayer, EulerMapping
from fleetrec.nn.feature_generation import FeatureGeneration
from fleetrec.nn.feature_selection import FeatureSelection
from fleetrec.nn.ffm import FieldAwareInteraction
from fleetrec.nn.field_attention import FieldAttention
from fleetrec.nn.fm import FactorizationMachine
from fleetrec.nn.gated_cross import GatedCross
from fleetrec.nn.group_interaction import GroupInteraction
from fleetrec.nn.linear_terms import LinearTerms
from fleetrec.nn.mask_block import MaskBlock
from fleetrec.nn.matrix_cross import MatrixCross
from fleetrec.nn.mixture_cross import MixtureCross
from fleetrec.nn.pair_attention import PairAttention
from fleetrec.nn.product import InnerProduct, OuterProduct
from fleetrec.nn.residual_unit import ResidualUnit
from fleetrec.nn.squeeze_excitation import SqueezeExcitation
from fleetrec.nn.vector_cross import VectorCross
from reference import interactions as slow

B, F, D = 4, 5, 3
X = F * D


@pytest.fixture(autouse=True)
def _double():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def shaken(layer):
    """The layer with every parameter moved, so that zeros and ones hide nothing."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return layer.eval()


def fields():
    return torch.randn(B, F, D)


def arrays(*tensors):
    return [tensor.detach().numpy() for tensor in tensors]


def check(outputs, twin, *inputs):
    """The twin is called for each sample."""
    want = [np.asarray(twin(*sample)) for sample in zip(*(x.numpy() for x in inputs), strict=True)]
    np.testing.assert_allclose(outputs.detach().numpy(), np.stack(want), rtol=1e-9, atol=1e-10)


def test_linear_terms_add_up():
    layer = LinearTerms()
    layer.bias.data.fill_(0.5)
    assert layer(torch.tensor([[1.0, 2.0], [0.0, -1.0]])).tolist() == [3.5, -0.5]


def test_bi_interaction():
    x = fields()
    check(BiInteraction()(x), slow.bi_interaction, x)


def test_fm_by_hand():
    x = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]])
    assert FactorizationMachine()(x).tolist() == [11 + 17 + 39]


def test_fm():
    x = fields()
    check(FactorizationMachine()(x), slow.factorization_machine, x)


def test_ffm():
    x = torch.randn(B, F, F, D)
    check(FieldAwareInteraction()(x), slow.field_aware, x)


def test_vector_cross():
    layer, x = shaken(VectorCross(X, num_layers=3)), torch.randn(B, X)
    weights, biases = arrays(*layer.weights), arrays(*layer.biases)
    check(layer(x), lambda v: slow.vector_cross(v, weights, biases), x)


def test_matrix_cross():
    layer, x = shaken(MatrixCross(X, num_layers=3)), torch.randn(B, X)
    weights = arrays(*(part.weight for part in layer.layers))
    biases = arrays(*(part.bias for part in layer.layers))
    check(layer(x), lambda v: slow.matrix_cross(v, weights, biases), x)


def test_mixture_cross():
    layer = shaken(MixtureCross(X, num_layers=2, num_experts=3, rank=2))
    x = torch.randn(B, X)

    def twin(x0):
        v = x0
        for part in layer.layers:
            down, inner, up, bias, gate = arrays(
                part.down_ERX, part.inner_ERR, part.up_EXR, part.bias_X, part.gate.weight
            )
            v = slow.mixture_cross_layer(x0, v, down=down, inner=inner, up=up, bias=bias, gate=gate)
        return v

    check(layer(x), twin, x)


def test_gated_cross():
    layer, x = shaken(GatedCross(X, num_layers=3)), torch.randn(B, X)
    weights = arrays(*(part.weight for part in layer.crosses))
    biases = arrays(*(part.bias for part in layer.crosses))
    gates = arrays(*(part.weight for part in layer.gates))
    check(layer(x), lambda v: slow.gated_cross(v, weights, biases, gates), x)


def test_cin():
    layer, x = shaken(Cin(F, [4, 2, 3])), fields()
    weights = arrays(*layer.weights)
    assert layer.out_dim == 9
    check(layer(x), lambda v: slow.cin(list(v), weights), x)


def test_inner_product():
    layer, x = shaken(InnerProduct(F, 4)), fields()
    (theta,) = arrays(layer.theta_NF)
    check(layer(x), lambda v: slow.inner_product(list(v), theta), x)


def test_outer_product():
    layer, x = shaken(OuterProduct(D, 4)), fields()
    (weight,) = arrays(layer.weight_NDD)
    check(layer(x), lambda v: slow.outer_product(list(v), weight), x)


def test_pair_attention():
    layer, x = shaken(PairAttention(F, D, attention_dim=4)), fields()
    weight, bias, score = arrays(layer.hidden.weight, layer.hidden.bias, layer.score.weight[0])
    check(layer(x), lambda v: slow.pair_attention(list(v), weight, bias, score), x)


def test_pair_attention_prefers_some_pairs():
    """The softmax runs over pairs: weights of pairs differ, and they sum to one."""
    layer = shaken(PairAttention(3, 1, attention_dim=4))
    ones = torch.ones(1, 3, 1)
    torch.testing.assert_close(layer(ones), torch.ones(1, 1))
    x = torch.tensor([[[1.0], [2.0], [4.0]]])
    assert layer(x).item() not in (pytest.approx(14 / 3), pytest.approx(14.0))


def test_field_attention():
    heads, key_dim, value_dim = 2, 4, 3
    layer = shaken(FieldAttention(D, num_heads=heads, key_dim=key_dim, value_dim=value_dim))
    x = fields()
    query, key, value = (
        w.reshape(heads, -1, D)
        for w in arrays(layer.query.weight, layer.key.weight, layer.value.weight)
    )
    (residual,) = arrays(layer.residual.weight)
    check(layer(x), lambda v: slow.field_attention(list(v), query, key, value, residual), x)
    assert layer(x).shape == (B, F, layer.out_dim)


def test_residual_unit():
    layer, x = shaken(ResidualUnit(X, hidden_dim=7)), torch.randn(B, X)
    weights = arrays(layer.inner.weight, layer.inner.bias, layer.outer.weight, layer.outer.bias)
    check(layer(x), lambda v: slow.residual_unit(v, *weights), x)


@pytest.mark.parametrize("ratio", [2, 100])
def test_squeeze_excitation(ratio):
    layer, x = shaken(SqueezeExcitation(F, reduction_ratio=ratio)), fields()
    squeeze, excite = arrays(layer.squeeze.weight, layer.excite.weight)
    check(layer(x), lambda v: slow.squeeze_excitation(list(v), squeeze, excite), x)


@pytest.mark.parametrize("kind", ["all", "each", "interaction"])
def test_bilinear(kind):
    layer, x = shaken(BilinearInteraction(F, D, kind=kind)), fields()
    (weight,) = arrays(layer.weight)
    check(layer(x), lambda v: slow.bilinear(list(v), weight, kind), x)


def test_group_interaction():
    sizes = [2, 1, 2]
    layer, x = shaken(GroupInteraction(sizes)), fields()
    between, within = arrays(layer.between_P, layer.within_M)
    check(layer(x), lambda v: slow.group_interaction(list(v), sizes, between, within), x)


def test_group_interaction_drops_whole_paths_in_training():
    layer = GroupInteraction([1, 1], dropout=0.5).train()
    x = torch.ones(200, 2, D)
    outputs = layer(x)
    assert set(outputs.unique().tolist()) == {0.0, 2.0}
    assert (outputs == outputs[:, :1]).all()


def test_dot_interaction():
    x = fields()
    check(DotInteraction(F)(x), slow.dot_interaction, x)


@pytest.mark.parametrize("kernel", [2, 3, 9])
def test_feature_generation(kernel):
    layer = FeatureGeneration(
        F, D, filters=[3, 2], kernels=[kernel, kernel], pooling=[2, 2], new_filters=[2, 3]
    )
    layer, x = shaken(layer), fields()
    layers = [
        (*arrays(c[1].weight[..., 0], c[1].bias), pool.kernel_size[0], *arrays(r.weight, r.bias))
        for c, pool, r in zip(layer.convolutions, layer.pools, layer.recombinations, strict=True)
    ]
    assert layer.num_new_fields == 2 * 2 + 3 * 1
    check(layer(x), lambda v: slow.feature_generation(list(v), layers), x)


def test_too_few_fields_to_generate_from_are_refused():
    with pytest.raises(ValueError, match=r"3 fields are too few"):
        FeatureGeneration(
            3, D, filters=[1] * 2, kernels=[2] * 2, pooling=[2] * 2, new_filters=[1] * 2
        )


def test_mask_block():
    layer = shaken(MaskBlock(X, 6, 4, reduction_ratio=0.5))
    embedded, x = torch.randn(B, X), torch.randn(B, 6)
    parts = {
        name: tuple(arrays(part.weight, part.bias))
        for name, part in (
            ("aggregate", layer.aggregate),
            ("project", layer.project),
            ("norm", layer.norm),
        )
    }
    (out,) = arrays(layer.out.weight)
    check(layer(embedded, x), lambda e, v: slow.mask_block(e, v, out=out, **parts), embedded, x)


def test_feature_selection_by_a_learned_context():
    layer, x = shaken(FeatureSelection(X)), torch.randn(B, X)
    context, weight, bias = arrays(layer.context_C, layer.gate.weight, layer.gate.bias)
    check(layer(x), lambda v: v * 2 * slow.sigmoid(weight @ context + bias), x)


def test_feature_selection_by_a_given_context():
    layer = shaken(FeatureSelection(X, context_dim=2, hidden=[3]))
    x, context = torch.randn(B, X), torch.randn(B, 2)
    inner, inner_bias = arrays(layer.mlp[0][0].weight, layer.mlp[0][0].bias)
    weight, bias = arrays(layer.gate.weight, layer.gate.bias)

    def twin(v, c):
        return v * 2 * slow.sigmoid(weight @ slow.relu(inner @ c + inner_bias) + bias)

    check(layer(x, context), twin, x, context)


def test_bilinear_fusion():
    layer = shaken(BilinearFusion(6, 4, num_heads=2))
    left, right = torch.randn(B, 6), torch.randn(B, 4)
    left_weight, bias, right_weight, weight = arrays(
        layer.left.weight[0], layer.left.bias[0], layer.right.weight[0], layer.weight_HLR
    )

    def twin(a, b):
        return slow.bilinear_fusion(
            a, b, left_weight=left_weight, bias=bias, right_weight=right_weight, weight=weight
        )

    check(layer(left, right), twin, left, right)


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ValueError, match=r"must divide the last hidden widths 6 and 4, got 4"):
        BilinearFusion(6, 4, num_heads=4)


def test_euler_layer():
    mapping, layer = shaken(EulerMapping(F)), shaken(EulerLayer(F, D, out_fields=2))
    x = fields()
    real, imaginary = layer(*mapping(x))
    orders, log_modulus, phase, implicit, implicit_bias, modulus = arrays(
        layer.orders_NF,
        layer.log_modulus_ND,
        layer.phase_ND,
        layer.implicit.weight,
        layer.implicit.bias,
        mapping.modulus_F1[:, 0],
    )
    norms = [arrays(n.weight, n.bias) for n in (layer.real_norm, layer.imaginary_norm)]

    def twin(v):
        z = [m * np.exp(1j * vector) for m, vector in zip(modulus, v, strict=True)]
        out = slow.euler_layer(
            z,
            orders=orders,
            log_modulus=log_modulus,
            phase=phase,
            implicit=implicit,
            implicit_bias=implicit_bias,
        ).reshape(-1)
        both = zip((out.real, out.imag), norms, strict=True)
        return np.stack([slow.layer_norm(part, *norm) for part, norm in both])

    outputs = torch.stack([real.flatten(1), imaginary.flatten(1)], dim=1)
    want = np.stack([twin(v) for v in x.numpy()])
    np.testing.assert_allclose(outputs.detach().numpy(), want, rtol=1e-6, atol=1e-6)
