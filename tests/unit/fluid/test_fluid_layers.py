"""Layers compute what the formulas of torch do."""

import pytest
import torch
from torch.nn import functional

from fleetrec import fluid
from fleetrec.core.batch import Batch
from fleetrec.core.cursor import Cursor
from fleetrec.core.errors import ConfigError, DataError, UnavailableError
from fleetrec.core.jagged import KeyedJagged
from fleetrec.fluid.model import GraphModel

L = fluid.layers
X = torch.tensor([[0.5, -1.0, 2.0, 0.25], [1.5, 0.5, -0.5, 3.0], [0.1, 0.2, 0.3, 0.4]])
Y = torch.tensor([[1.0, 2.0, 3.0, 4.0], [0.5, 0.5, 0.5, 0.5], [2.0, 1.0, 2.0, 1.0]])
P = torch.tensor([[0.2], [0.9], [0.5]])
CLASSES = torch.tensor([1, 0, 3])


def run(recorded, *, training=False, batch=None):
    """Return the value of a variable, and the model that computed it."""
    model = GraphModel(recorded.program, loss=L.reduce_sum(L.cast(recorded, "float32")), seed=1)
    model.train(training)
    labels = KeyedJagged(names=("label",), values_N=CLASSES, offsets=torch.arange(4), num_samples=3)
    given = batch or Batch(ids=labels, dense={"x": X, "y": Y, "p": P}, cursor=Cursor())
    return model.value_of(recorded, model(given), given).detach(), model


def value(recorded, **more):
    return run(recorded, **more)[0]


def x():
    return L.data("x", [4])


def y():
    return L.data("y", [4])


def p():
    return L.data("p", [1])


def label():
    return L.data("label", [1], dtype="int64")


CASES = {
    "relu": (lambda: L.relu(x()), X.relu()),
    "sigmoid": (lambda: L.sigmoid(x()), X.sigmoid()),
    "tanh": (lambda: L.tanh(x()), X.tanh()),
    "softmax": (lambda: L.softmax(x()), X.softmax(dim=1)),
    "square": (lambda: L.square(x()), X**2),
    "abs": (lambda: L.abs(x()), X.abs()),
    "exp": (lambda: L.exp(x()), X.exp()),
    "log": (lambda: L.log(y()), Y.log()),
    "sqrt": (lambda: L.sqrt(y()), Y.sqrt()),
    "softplus": (lambda: L.softplus(x()), functional.softplus(X)),
    "add": (lambda: L.elementwise_add(x(), y(), act="relu"), (X + Y).relu()),
    "add at axis": (
        lambda: L.elementwise_add(x(), L.reduce_sum(y(), 1), axis=0),
        X + Y.sum(1, keepdim=True),
    ),
    "sub": (lambda: L.elementwise_sub(x(), y()), X - Y),
    "mul": (lambda: L.elementwise_mul(x(), y()), X * Y),
    "div": (lambda: L.elementwise_div(x(), y()), X / Y),
    "max": (lambda: L.elementwise_max(x(), y()), X.maximum(Y)),
    "min": (lambda: L.elementwise_min(x(), y()), X.minimum(Y)),
    "operators": (lambda: 1.0 - x() * 2.0 + y() / p() - (-y_again()), 1 - X * 2 + Y / P + Y),
    "number first": (lambda: 2.0 / y() + 3.0 * p() - 1.0, 2 / Y + 3 * P - 1),
    "scale": (lambda: L.scale(x(), scale=2.0, bias=1.0), 2 * X + 1),
    "scale of sum": (lambda: L.scale(x(), 2.0, 1.0, bias_after_scale=False), 2 * (X + 1)),
    "pow": (lambda: L.pow(y(), 3.0), Y**3),
    "clip": (lambda: L.clip(x(), min=0.0, max=1.0), X.clamp(0, 1)),
    "cast": (lambda: L.cast(x(), "int64"), X.long()),
    "sum": (lambda: L.sum([x(), y()]), X + Y),
    "matmul": (lambda: L.matmul(x(), y(), transpose_y=True, alpha=0.5), X @ Y.T / 2),
    "reduce_sum": (lambda: L.reduce_sum(x()), X.sum().reshape(1)),
    "reduce_sum dim": (lambda: L.reduce_sum(x(), dim=1, keep_dim=True), X.sum(1, keepdim=True)),
    "reduce_mean": (lambda: L.reduce_mean(x(), dim=[1]), X.mean(1)),
    "reduce_max": (lambda: L.reduce_max(x(), dim=1), X.amax(1)),
    "reduce_min": (lambda: L.reduce_min(x()), X.amin().reshape(1)),
    "mean": (lambda: L.mean(x()), X.mean().reshape(1)),
    "concat": (lambda: L.concat([x(), y()], axis=1), torch.cat([X, Y], 1)),
    "stack": (lambda: L.stack([x(), y()], axis=1), torch.stack([X, Y], 1)),
    "split": (lambda: L.split(x(), [1, -1], dim=1)[1], X[:, 1:]),
    "split in two": (lambda: L.split(x(), 2)[0], X[:, :2]),
    "reshape": (lambda: L.reshape(x(), [0, 2, 2]), X.reshape(3, 2, 2)),
    "flatten": (lambda: L.flatten(L.reshape(x(), [-1, 2, 2])), X),
    "transpose": (
        lambda: L.transpose(L.reshape(x(), [-1, 2, 2]), [0, 2, 1]),
        X.reshape(3, 2, 2).transpose(1, 2),
    ),
    "unsqueeze": (lambda: L.unsqueeze(x(), [1]), X.unsqueeze(1)),
    "squeeze": (lambda: L.squeeze(p(), [1]), P.squeeze(1)),
    "cross_entropy": (
        lambda: L.cross_entropy(L.softmax(x()), label()),
        functional.cross_entropy(X, CLASSES, reduction="none").unsqueeze(1),
    ),
    "soft labels": (
        lambda: L.cross_entropy(L.softmax(x()), y(), soft_label=True),
        -(X.log_softmax(1) * Y).sum(1, keepdim=True),
    ),
    "softmax_with_cross_entropy": (
        lambda: L.softmax_with_cross_entropy(x(), label()),
        functional.cross_entropy(X, CLASSES, reduction="none").unsqueeze(1),
    ),
    "log_loss": (
        lambda: L.log_loss(p(), L.cast(label(), "float32")),
        -(C := CLASSES.float().unsqueeze(1)) * (P + 1e-4).log() - (1 - C) * (1 - P + 1e-4).log(),
    ),
    "sigmoid_cross_entropy_with_logits": (
        lambda: L.sigmoid_cross_entropy_with_logits(x(), y()),
        X.relu() - X * Y + (1 + (-X.abs()).exp()).log(),
    ),
    "square_error_cost": (lambda: L.square_error_cost(x(), y()), (X - Y) ** 2),
    # The most probable classes are 2, 3 and 3; the least probable ones 1, 2 and 0.
    "accuracy": (lambda: L.accuracy(L.softmax(x()), label()), torch.tensor([1 / 3])),
    "accuracy of three": (lambda: L.accuracy(x(), label(), k=3), torch.tensor([2 / 3])),
    "dropout": (lambda: L.dropout(x(), 0.25), X * 0.75),
    "upscaled dropout": (
        lambda: L.dropout(x(), 0.25, dropout_implementation="upscale_in_train"),
        X,
    ),
}


def y_again():
    return fluid.default_main_program().variables["y"]


@pytest.mark.parametrize("case", CASES)
def test_a_layer_computes_its_formula(case):
    layer, expected = CASES[case]
    found = value(layer())
    assert found.shape == expected.shape
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_fc_is_a_sum_of_products():
    recorded = L.fc([x(), p()], size=3, act="sigmoid", bias_attr=fluid.initializer.Constant(0.5))
    found, model = run(recorded)
    first, second, bias = (model.weights[f"fc_0_{name}"] for name in ("w_0", "w_1", "b_0"))
    torch.testing.assert_close(found, (X @ first + P @ second + bias).sigmoid().detach())
    assert bias.tolist() == [0.5, 0.5, 0.5]


def test_batch_norm_normalises_by_the_batch_and_later_by_moving_averages():
    recorded = L.batch_norm(x())
    trained, model = run(recorded, training=True)
    expected = (X - X.mean(0)) / (X.var(0, correction=0) + 1e-5).sqrt()
    torch.testing.assert_close(trained, expected, rtol=1e-4, atol=1e-5)
    average = model.modules_of_layers["batch_norm_0"].running_mean
    assert not torch.equal(average, torch.zeros(4))


def test_dropout_drops_in_training():
    torch.manual_seed(0)
    found = value(L.dropout(x(), 0.5), training=True)
    assert bool((found == 0).any())
    torch.testing.assert_close(found[found != 0], X[found != 0])


def test_a_parameter_of_ones_own_is_multiplied():
    weight = L.create_parameter([4, 2], "float32", default_initializer=fluid.initializer.Normal())
    found, model = run(L.matmul(x(), weight))
    torch.testing.assert_close(found, (X @ model.weights["create_parameter_0_w_0"]).detach())


ROWS = torch.tensor([[[1.0, -1.0], [3.0, -2.0]], [[5.0, 6.0], [0, 0]], [[0, 0], [0, 0.0]]])
LENGTHS = torch.tensor([2, 1, 0])


@pytest.mark.parametrize(
    ("pool_type", "expected"),
    [
        ("max", [[3, -1], [5, 6], [0, 0]]),
        ("first", [[1, -1], [5, 6], [0, 0]]),
        ("last", [[3, -2], [5, 6], [0, 0]]),
    ],
)
def test_a_sequence_is_pooled(pool_type, expected):
    ids = L.data("ids", [1], dtype="int64", lod_level=1)
    recorded = L.sequence_pool(L.embedding(ids, [10, 2]), pool_type)
    batch = Batch(
        ids=KeyedJagged(
            names=("ids",),
            values_N=torch.tensor([1, 2, 3]),
            offsets=torch.tensor([0, 2, 3, 3]),
            num_samples=3,
        ),
        dense={},
        cursor=Cursor(),
        embedded={"sequence_ids": ROWS, "lengths_ids": LENGTHS},
    )
    assert value(recorded, batch=batch).tolist() == expected


@pytest.mark.parametrize(
    ("pool_type", "combiner"), [("sum", "sum"), ("average", "mean"), ("sqrt", "sqrtn")]
)
def test_sums_and_means_are_pooled_in_the_lookup(pool_type, combiner):
    ids = L.data("ids", [1], dtype="int64", lod_level=1)
    attr = fluid.ParamAttr(name="rows", initializer=fluid.initializer.Uniform(0.0, 0.5))
    pooled = L.sequence_pool(L.embedding(ids, [10, 2], param_attr=attr), pool_type)
    model = GraphModel(pooled.program, loss=L.mean(pooled), seed=0)
    (feature,) = model.embeddings.features
    assert (feature.feature, feature.table, feature.combiner) == ("ids", "rows", combiner)
    table = model.embeddings.tables["rows"]
    assert (table.num_rows, table.dim) == (10, 2)
    assert (table.initializer.scale, table.initializer.center) == (0.25, 0.25)


def test_data_that_does_not_have_the_declared_number_of_ids_is_refused():
    recorded = L.cast(L.data("label", [2], dtype="int64"), "float32")
    with pytest.raises(DataError, match="label: expected 2 integers in every sample"):
        value(recorded)


def test_arguments_without_a_counterpart_are_refused():
    ids = L.data("ids", [1], dtype="int64", lod_level=1)
    with pytest.raises(UnavailableError, match="padding_idx=0; leave it out"):
        L.embedding(ids, [10, 2], padding_idx=0)
    with pytest.raises(UnavailableError, match="regularizer=1; leave it out"):
        fluid.ParamAttr(regularizer=1)
    with pytest.raises(ConfigError, match="no pool_type 'median'; known: sum, average"):
        L.sequence_pool(L.embedding(ids, [10, 2]), "median")
    numbers = x()
    with pytest.raises(ConfigError, match="act: no function is called 'gelu'"):
        L.fc(numbers, size=1, act="gelu")
    with pytest.raises(ConfigError, match=r"cross_entropy: expected labels of shape \[-1, 1\]"):
        L.cross_entropy(numbers, y())
    with pytest.raises(ConfigError, match=r"expected dtype 'int64' .* got 'int32'"):
        L.data("age", [1], dtype="int32")
    with pytest.raises(ConfigError, match=r"auc: expected probabilities of shape \[-1, 2\]"):
        L.auc(numbers, label())
