"""The trained parameters of a model as one vector."""

import numpy as np
import torch
from torch import nn

from fleetrec.config.job import OptimizerOptions
from fleetrec.models.base import Model
from fleetrec.parallel.flat import FlatParameters
from fleetrec.parallel.optimizer_plan import OptimizerPlan


class TwoOptimizers(Model):
    """Biases have an optimizer of their own."""

    def __init__(self):
        super().__init__(tasks=[])
        self.first = nn.Linear(2, 2)
        self.second = nn.Linear(2, 1)
        with torch.no_grad():
            for index, parameter in enumerate(self.parameters()):
                parameter.fill_(index)

    def optimizer_of(self, variable, *, num_optimizers):
        return 0 if variable.endswith("bias") else num_optimizers - 1


def make_flat(num_optimizers=2, *, frozen=()):
    model = TwoOptimizers()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in frozen)
    plan = OptimizerPlan(model, [OptimizerOptions(name="sgd")] * num_optimizers)
    return model, FlatParameters(model, plan)


def test_parameters_are_ordered_by_optimizer_then_as_in_the_model():
    _, flat = make_flat()
    assert flat.sizes == (3, 6)
    assert flat.names(optimizer=0) == ["first.bias", "second.bias"]
    assert flat.names(optimizer=1) == ["first.weight", "second.weight"]
    assert flat.values().tolist() == [1, 1, 3, 0, 0, 0, 0, 2, 2]


def test_one_optimizer_has_all_in_the_order_of_the_model():
    _, flat = make_flat(1)
    assert flat.sizes == (9,)
    assert flat.values().tolist() == [0, 0, 0, 0, 1, 1, 2, 2, 3]


def test_frozen_parameters_are_left_out():
    model, flat = make_flat(frozen=("first.weight",))
    assert len(flat) == 5
    flat.set_values(np.full(5, 9, np.float32))
    assert not model.first.weight.any()


def test_values_that_were_set_are_those_of_the_model():
    model, flat = make_flat()
    values_P = np.arange(len(flat), dtype=np.float32)
    flat.set_values(values_P)
    np.testing.assert_array_equal(flat.values(), values_P)
    assert model.first.bias.tolist() == [0, 1]
    assert model.second.weight.tolist() == [[7, 8]]


def test_gradients_that_are_missing_are_zeros():
    model, flat = make_flat()
    model.second(torch.ones(1, 2)).sum().backward()
    assert flat.flat_gradients().tolist() == [0, 0, 1, 0, 0, 0, 0, 1, 1]
    assert len(flat.gradients()) == 2


def test_numbers_by_name_have_the_shapes_of_parameters_and_go_back():
    _, flat = make_flat()
    named = flat.by_name(np.arange(6, dtype=np.float32), optimizer=1)
    assert named["first.weight"].tolist() == [[0, 1], [2, 3]]
    assert flat.from_names(named, optimizer=1).tolist() == list(range(6))


def test_numbers_by_name_are_copies():
    _, flat = make_flat()
    values_P = np.zeros(len(flat), np.float32)
    flat.by_name(values_P)["first.bias"].fill_(5)
    assert not values_P.any()


def test_a_model_without_trained_parameters_has_an_empty_vector():
    names = [name for name, _ in TwoOptimizers().named_parameters()]
    _, flat = make_flat(frozen=names)
    assert len(flat) == len(flat.values()) == len(flat.flat_gradients()) == 0
    flat.set_values(flat.values())
