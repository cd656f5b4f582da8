"""Id lists, and the weights that may stand beside them."""

import pytest
import torch

from fleetrec.core.jagged import Jagged, KeyedJagged


def make_keyed(weights=None):
    return KeyedJagged(
        names=("a", "b"),
        values_N=torch.tensor([1, 2, 3, 4]),
        offsets=torch.tensor([0, 2, 2, 3, 4]),
        num_samples=2,
        weights_N=weights,
    )


def test_a_feature_is_a_view_with_its_weights():
    weights = torch.tensor([0.1, 0.2, 0.3, 0.4])
    second = make_keyed(weights)["b"]
    assert second.values.tolist() == [3, 4]
    assert second.offsets.tolist() == [0, 1, 2]
    assert second.weights is not None
    assert torch.equal(second.weights, weights[2:])


def test_weights_may_be_absent_and_move_with_the_ids():
    cpu = torch.device("cpu")
    assert make_keyed()["a"].weights is None
    assert make_keyed().to(cpu).weights_N is None
    moved = make_keyed(torch.ones(4)).to(cpu)
    assert moved.weights_N is not None
    assert moved["a"].to(cpu).weights is not None


@pytest.mark.parametrize("weights", [torch.ones(3), torch.ones(4, dtype=torch.float64)])
def test_weights_that_do_not_fit_are_refused(weights):
    with pytest.raises(ValueError, match="expected 4 weights of float32, got"):
        make_keyed(weights)
    with pytest.raises(ValueError, match="expected 4 weights of float32, got"):
        Jagged(values=torch.arange(4), offsets=torch.tensor([0, 4]), weights=weights)
