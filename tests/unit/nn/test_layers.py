"""What every layer promises: gradients, samples for themselves, a graph for any batch."""

import importlib.util

import pytest
import torch
from torch import nn

from fleetrec.nn.batch_norm import BatchNorm
from fleetrec.nn.bi_interaction import BiInteraction
from fleetrec.nn.bilinear import BilinearInteraction
from fleetrec.nn.bilinear_fusion import BilinearFusion
from fleetrec.nn.cin import Cin
from fleetrec.nn.dot_interaction import DotInteraction
from fleetrec.nn.encoder_block import EncoderBlock, EncoderDropout
from fleetrec.nn.euler import EulerLayer, EulerMapping
from fleetrec.nn.feature_generation import FeatureGeneration
from fleetrec.nn.feature_selection import FeatureSelection
from fleetrec.nn.ffm import FieldAwareInteraction
from fleetrec.nn.field_attention import FieldAttention
from fleetrec.nn.fm import FactorizationMachine
from fleetrec.nn.gated_cross import GatedCross
from fleetrec.nn.group_interaction import GroupInteraction
from fleetrec.nn.gru import Gru
from fleetrec.nn.linear_terms import LinearTerms
from fleetrec.nn.mask_block import MaskBlock
from fleetrec.nn.matrix_cross import MatrixCross
from fleetrec.nn.mixture_cross import MixtureCross
from fleetrec.nn.mlp import Mlp
from fleetrec.nn.pair_attention import PairAttention
from fleetrec.nn.product import InnerProduct, OuterProduct
from fleetrec.nn.residual_unit import ResidualUnit
from fleetrec.nn.squeeze_excitation import SqueezeExcitation
from fleetrec.nn.target_attention import TargetAttention
from fleetrec.nn.vector_cross import VectorCross

F, D, L = 6, 4, 3
X = F * D
FIELDS, FLAT, HISTORY, TARGET, MASK = (F, D), (X,), (L, D), (D,), (L,)
CONVOLUTIONS = {"filters": [2], "kernels": [3], "pooling": [2], "new_filters": [2]}

LAYERS = {  # how it is made, and the shapes of a sample of its inputs
    "linear_terms": (LinearTerms, [(F,)]),
    "fm": (FactorizationMachine, [FIELDS]),
    "ffm": (FieldAwareInteraction, [(F, F, D)]),
    "bi_interaction": (BiInteraction, [FIELDS]),
    "vector_cross": (lambda: VectorCross(X, num_layers=2), [FLAT]),
    "matrix_cross": (lambda: MatrixCross(X, num_layers=2), [FLAT]),
    "mixture_cross": (lambda: MixtureCross(X, num_layers=2, num_experts=3, rank=2), [FLAT]),
    "gated_cross": (lambda: GatedCross(X, num_layers=2), [FLAT]),
    "cin": (lambda: Cin(F, [5, 3]), [FIELDS]),
    "inner_product": (lambda: InnerProduct(F, 5), [FIELDS]),
    "outer_product": (lambda: OuterProduct(D, 5), [FIELDS]),
    "pair_attention": (lambda: PairAttention(F, D, attention_dim=5), [FIELDS]),
    "field_attention": (
        lambda: FieldAttention(D, num_heads=2, key_dim=3, value_dim=5, dropout=0.3),
        [FIELDS],
    ),
    "residual_unit": (lambda: ResidualUnit(X, hidden_dim=5), [FLAT]),
    "squeeze_excitation": (lambda: SqueezeExcitation(F, reduction_ratio=2), [FIELDS]),
    "bilinear_all": (lambda: BilinearInteraction(F, D, kind="all"), [FIELDS]),
    "bilinear_each": (lambda: BilinearInteraction(F, D, kind="each"), [FIELDS]),
    "bilinear_interaction": (lambda: BilinearInteraction(F, D, kind="interaction"), [FIELDS]),
    "feature_generation": (lambda: FeatureGeneration(F, D, **CONVOLUTIONS), [FIELDS]),
    "group_interaction": (lambda: GroupInteraction([2, 3, 1], dropout=0.3), [FIELDS]),
    "dot_interaction": (lambda: DotInteraction(F), [FIELDS]),
    "mask_block": (lambda: MaskBlock(X, 5, 7, reduction_ratio=0.5), [FLAT, (5,)]),
    "feature_selection": (lambda: FeatureSelection(X), [FLAT]),
    "feature_selection_by_context": (
        lambda: FeatureSelection(X, context_dim=2, hidden=[5]),
        [FLAT, (2,)],
    ),
    "bilinear_fusion": (lambda: BilinearFusion(6, 4, num_heads=2), [(6,), (4,)]),
    "euler_mapping": (lambda: EulerMapping(F), [FIELDS]),
    "euler_layer": (lambda: EulerLayer(F, D, out_fields=3, dropout=0.3), [FIELDS, FIELDS]),
    "mlp": (
        lambda: Mlp(X, [7, 5], activation="prelu", batch_norm=True, dropout=0.3),
        [FLAT],
    ),
    "target_attention": (lambda: TargetAttention(D, hidden=[5]), [TARGET, HISTORY, MASK]),
    "gru": (lambda: Gru(D, 5), [HISTORY, MASK]),
    "augru": (lambda: Gru(D, 5), [HISTORY, MASK, (L,)]),
    "encoder_block": (
        lambda: EncoderBlock(
            D, num_heads=2, key_dim=3, hidden_dim=5, dropout=EncoderDropout(output=0.3)
        ),
        [HISTORY, MASK],
    ),
}


@pytest.fixture(params=LAYERS)
def name(request) -> str:
    return request.param


@pytest.fixture
def layer(name) -> nn.Module:
    torch.manual_seed(1)
    return LAYERS[name][0]()


def make_inputs(name, *, num_samples, length=L):
    """Masks are true for the first elements of each sample, and for none of the last sample."""
    generator = torch.Generator().manual_seed(num_samples)
    tensors = []
    for shape in LAYERS[name][1]:
        shape = tuple(length if size == L and shape in (HISTORY, MASK) else size for size in shape)
        tensors.append(torch.randn(num_samples, *shape, generator=generator))
    if len(tensors) > 1 and HISTORY in LAYERS[name][1]:
        place = LAYERS[name][1].index(MASK)
        tensors[place] = torch.arange(length) < torch.arange(num_samples - 1, -1, -1)[:, None]
    return tensors


def as_tuple(outputs):
    return outputs if isinstance(outputs, tuple) else (outputs,)


def test_every_parameter_and_every_input_has_a_gradient(name, layer):
    inputs = make_inputs(name, num_samples=8)
    floats = [x.requires_grad_() for x in inputs if x.is_floating_point()]
    outputs = as_tuple(layer.train()(*inputs))
    sum((output * torch.randn_like(output)).sum() for output in outputs).backward()
    assert [n for n, p in layer.named_parameters() if p.grad is None or not p.grad.any()] == []
    assert all(x.grad is not None and x.grad.any() for x in floats)


def test_evaluation_looks_at_one_sample_at_a_time_and_draws_nothing(name, layer):
    inputs = make_inputs(name, num_samples=6)
    layer.train()(*inputs)  # running statistics may move
    layer.eval()
    whole = as_tuple(layer(*inputs))
    alone = [as_tuple(layer(*(x[i : i + 1] for x in inputs))) for i in range(6)]
    for k, output in enumerate(whole):
        torch.testing.assert_close(torch.cat([parts[k] for parts in alone]), output)


def test_only_dropout_and_batch_norm_know_training(name, layer):
    inputs = make_inputs(name, num_samples=6)
    same = all(
        torch.equal(a, b)
        for a, b in zip(
            as_tuple(layer.train()(*inputs)), as_tuple(layer.eval()(*inputs)), strict=True
        )
    )
    random = [m for m in layer.modules() if isinstance(m, nn.Dropout | BatchNorm)]
    assert same == (not random)


def dynamic_shapes(name):
    """Any number of samples, any length of history."""
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
    shapes = LAYERS[name][1]
    return tuple({0: batch} | ({1: length} if s in (HISTORY, MASK) else {}) for s in shapes)


@pytest.mark.filterwarnings("ignore")  # about the exporter's own insides
def test_the_graph_is_one_for_all_batches_and_lengths(name, layer):
    layer.eval()
    program = torch.export.export(
        layer, tuple(make_inputs(name, num_samples=3)), dynamic_shapes=dynamic_shapes(name)
    )
    inputs = make_inputs(name, num_samples=7, length=5)
    for got, want in zip(
        as_tuple(program.module()(*inputs)), as_tuple(layer(*inputs)), strict=True
    ):
        torch.testing.assert_close(got, want)


@pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="extra onnx")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["target_attention", "augru", "encoder_block", "euler_layer"])
def test_layers_over_histories_run_as_onnx(name):
    """Other layers are exported with the models that use them."""
    import onnxruntime

    layer = LAYERS[name][0]().eval()
    program = torch.onnx.export(
        layer,
        tuple(make_inputs(name, num_samples=3)),
        dynamic_shapes=dynamic_shapes(name),
        dynamo=True,
        verbose=False,
    )
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    inputs = make_inputs(name, num_samples=7, length=5)
    names = [entry.name for entry in session.get_inputs()]
    feeds = {key: x.numpy() for key, x in zip(names, inputs, strict=True)}
    for got, want in zip(session.run(None, feeds), as_tuple(layer(*inputs)), strict=True):
        torch.testing.assert_close(torch.from_numpy(got), want.detach(), atol=1e-5, rtol=1e-5)


def test_a_training_batch_of_one_sample_is_normalised_by_running_statistics():
    norm = BatchNorm(2)
    norm.train()(torch.tensor([[1.0, 0.0], [3.0, 4.0]]))
    mean, variance = norm.running_mean.clone(), norm.running_var.clone()
    x = torch.tensor([[5.0, 6.0]])
    torch.testing.assert_close(norm(x), (x - mean) / (variance + norm.eps).sqrt())
    assert torch.equal(norm.running_mean, mean)


@pytest.mark.parametrize("name", ["relu", "sigmoid", "tanh", "gelu", "leaky_relu", "linear"])
def test_an_mlp_has_the_activation_it_is_asked_for(name):
    torch.manual_seed(0)
    mlp = Mlp(3, [4], activation=name)
    x = torch.randn(5, 3)
    function = {"linear": lambda v: v}.get(name) or getattr(nn.functional, name)
    torch.testing.assert_close(mlp(x), function(mlp[0][0](x)))


def test_an_mlp_of_parts_is_the_mlp_of_all_side_by_side():
    mlp = Mlp(7, (5, 3))
    parts = [torch.rand(4, 2, requires_grad=True), torch.rand(4, 5, requires_grad=True)]
    whole = mlp(torch.cat(parts, dim=1))
    whole.sum().backward()
    want = [part.grad for part in parts] + [p.grad for p in mlp.parameters()]
    for tensor in (*parts, *mlp.parameters()):
        tensor.grad = None
    by_parts = mlp.of_parts(parts)
    by_parts.sum().backward()
    got = [part.grad for part in parts] + [p.grad for p in mlp.parameters()]
    torch.testing.assert_close(by_parts, whole)
    torch.testing.assert_close(got, want)
