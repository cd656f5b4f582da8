"""Dense optimizers move weights as the row optimizers of the same name do, step by step."""

import numpy as np
import pytest
import torch

from fleetrec.config.job import OptimizerOptions
from fleetrec.config.schedules import ExponentialDecay
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.table import Initializer, RowOptimizer, TableConfig
from fleetrec.optim.dense import DenseOptimizer, row_rate
from fleetrec.optim.schedule import learning_rate
from reference.row_optimizer import OPTIMIZERS

SETTINGS = {
    "momentum": {"momentum": 0.8},
    "momentumw": {"momentum": 0.8, "weight_decay": 0.01},
    "lazy_adam": {"beta1": 0.8, "beta2": 0.95},
    "lazy_adamw": {"beta1": 0.8, "beta2": 0.95, "weight_decay": 0.01},
    "rmsprop_momentum": {"decay": 0.8, "momentum": 0.7, "eps": 0.5},
    "ftrl_power": {
        "initial_accumulator": 0.2,
        "l1": 0.05,
        "l2": 0.1,
        "l2_shrinkage": 0.02,
        "power": -0.6,
    },
    "adagrad": {"initial_accumulator": 0.2, "eps": 0.0},
}
NUM_STEPS = 6


def gradients():
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(4, generator=generator) for _ in range(NUM_STEPS)]


def reference(name):
    """Return the plain formula with the settings of this test."""
    formula = OPTIMIZERS[name]()
    for key, value in SETTINGS[name].items():
        setattr(formula, {"initial_accumulator": "initial"}.get(key, key), value)
    if name == "adagrad":
        formula.new_state = lambda dim: [0.2] * dim
    return formula


def options(name):
    schedule = ExponentialDecay(decay_steps=2, factor=0.5)
    return OptimizerOptions(name=name, lr=0.1, settings=SETTINGS[name], schedule=schedule)


def by_formula(name):
    formula, chosen = reference(name), options(name)
    weights, state = [0.5] * 4, formula.new_state(4)
    for step, grad in enumerate(gradients()):
        rate = row_rate(chosen, step)
        weights, state = formula.update(weights, state, grad.double().tolist(), rate)
    return weights


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_a_parameter_follows_the_formula(name):
    chosen = options(name)
    parameter = torch.nn.Parameter(torch.full((4,), 0.5))
    optimizer = DenseOptimizer([(chosen, [parameter])])
    for step, grad in enumerate(gradients()):
        parameter.grad = grad
        optimizer.step([learning_rate(chosen, step)])
    assert parameter.tolist() == pytest.approx(by_formula(name), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_a_row_follows_the_formula(name):
    store = NativeStore(
        TableConfig(name="t", dim=4, initializer=Initializer(kind="constant", center=0.5)),
        RowOptimizer(name=name, hyperparameters=SETTINGS[name]),
        seed=0,
    )
    ids = torch.tensor([7])
    store.pull(ids, create=True)
    for step, grad in enumerate(gradients()):
        store.push(ids, grad.unsqueeze(0), lr=row_rate(options(name), step))
    moved = np.asarray(store.pull(ids, create=False))[0]
    assert moved.tolist() == pytest.approx(by_formula(name), rel=1e-5, abs=1e-6)


def test_a_parameter_belongs_to_one_optimizer_only():
    first, second = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    momentum = OptimizerOptions(name="momentum", lr=1.0)
    optimizer = DenseOptimizer([(momentum, [first]), (momentum, [second])])
    first.grad, second.grad = torch.ones(2), torch.ones(2)
    optimizer.step([0.5, 0.25])
    assert first.tolist() == [0.5, 0.5]
    assert second.tolist() == [0.75, 0.75]
    assert optimizer.state_of(first).keys() == {"velocity"}
