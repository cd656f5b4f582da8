"""The dense network of one process: steps, state, and weights of checkpoints."""

import pytest
import torch

from fleetrec.config.job import OptimizerOptions
from fleetrec.core.errors import CheckpointError
from fleetrec.parallel.dense_local import LocalDense, load_fitting_weights, load_model_weights
from fleetrec.parallel.optimizer_plan import OptimizerPlan
from making_groups import make_batch, make_model

ADAM = OptimizerOptions(name="adam", lr=0.1)


class Trained:
    """A network that makes steps on looked-up vectors which never change."""

    def __init__(self):
        self.model = make_model()
        self.dense = LocalDense(self.model, OptimizerPlan(self.model, [ADAM]))

    def step(self, number):
        batch = make_batch([number, number + 1])
        vectors = {name: x + number for name, x in self.embedded().items()}
        self.dense.forward_backward(batch.with_embedded(vectors))
        return self.dense.apply()

    def embedded(self):
        return self.model.embedding_collection().zeros(2, max_length=1)

    def weights(self):
        return {name: value.tolist() for name, value in self.model.state_dict().items()}


def test_a_network_goes_on_exactly_from_its_state():
    unbroken, resumed = Trained(), Trained()
    for number in range(3):
        assert unbroken.step(number) == pytest.approx(0.1)
    resumed.dense.load_state(unbroken.dense.state())
    for trained in (unbroken, resumed):
        trained.step(3)
    assert resumed.weights() == unbroken.weights()


def test_a_cleared_optimizer_keeps_weights_and_forgets_its_moments():
    trained, fresh = Trained(), Trained()
    trained.step(1)
    trained.dense.clear_optimizer()
    assert trained.dense.step == 0
    fresh.model.load_state_dict(trained.model.state_dict())
    for one in (trained, fresh):
        one.step(2)
    assert trained.weights() == fresh.weights()


def test_a_state_does_not_follow_the_network():
    trained = Trained()
    state = trained.dense.state()
    before = state["model"]["out.weight"].clone()
    trained.step(1)
    assert torch.equal(state["model"]["out.weight"], before)


def test_a_checkpoint_without_weights_is_refused_with_what_to_do():
    with pytest.raises(CheckpointError, match="name the tables to load with load_vars"):
        load_model_weights(make_model(), {})


def test_weights_of_another_shape_are_refused():
    state = {"model": {**make_model().state_dict(), "out.weight": torch.zeros(1, 5)}}
    with pytest.raises(CheckpointError, match="does not fit the model"):
        load_model_weights(make_model(), state)


def test_of_named_weights_those_that_fit_are_loaded():
    model = make_model()
    before = model.out.weight.detach().clone()
    state = {"model": {"out.weight": torch.zeros(1, 5), "out.bias": torch.full((1,), 7.0)}}
    assert load_fitting_weights(model, state, ["out.weight", "out.bias", "t"]) == ["out.bias"]
    assert model.out.bias.tolist() == [7]
    assert torch.equal(model.out.weight, before)
