"""The dense weights of a server move as torch's optimizers move them."""

import pytest
import torch

from fleetrec.config.job import OptimizerOptions
from fleetrec.embedding.sharding import WHOLE_TABLE, TableShard
from fleetrec.server.dense import NUM_STEPS, WEIGHTS, DensePart
from unit.server.serving import MODEL

SIZES = (3, 5)
TWO = MODEL.model_copy(
    update={
        "dense_sizes": SIZES,
        "optimizers": (
            OptimizerOptions(name="sgd", lr=0.5),
            OptimizerOptions(name="adam", lr=0.1),
        ),
    }
)
LAZY = MODEL.model_copy(update={"optimizers": (OptimizerOptions(name="lazy_adam", lr=0.1),)})
WEIGHTS_P = torch.arange(8.0)


def grads_of(step):
    return torch.sin(torch.arange(8.0) + step)


def train(part, steps, *, first=0, last=8):
    for step in steps:
        part.apply(grads_of(step)[first:last].clone())
    return part


def test_every_optimizer_moves_its_own_weights():
    part = train(DensePart(TWO, WHOLE_TABLE, WEIGHTS_P), range(4))
    parameters = [torch.nn.Parameter(p.clone()) for p in torch.split(WEIGHTS_P, SIZES)]
    optimizers = [
        torch.optim.SGD(parameters[:1], lr=0.5),
        torch.optim.Adam(parameters[1:], lr=0.1),
    ]
    for step in range(4):
        for parameter, grads in zip(parameters, torch.split(grads_of(step), SIZES), strict=True):
            parameter.grad = grads
        for optimizer in optimizers:
            optimizer.step()
    expected = torch.cat([parameter.detach() for parameter in parameters])
    torch.testing.assert_close(part.weights_P, expected)


def test_servers_with_slices_equal_one_server():
    whole = train(DensePart(TWO, WHOLE_TABLE, WEIGHTS_P), range(3))
    parts = []
    for index in range(3):
        shard = TableShard(index=index, count=3)
        first, last = shard.part_of(8)
        part = DensePart(TWO, shard, WEIGHTS_P[first:last])
        parts.append(train(part, range(3), first=first, last=last).weights_P)
    torch.testing.assert_close(torch.cat(parts), whole.weights_P)


@pytest.mark.parametrize("model", [TWO, LAZY])
def test_a_loaded_state_continues_exactly(model):
    size = model.num_dense
    straight = train(DensePart(model, WHOLE_TABLE, WEIGHTS_P[:size]), range(6), last=size)
    before = train(DensePart(model, WHOLE_TABLE, WEIGHTS_P[:size]), range(4), last=size)
    resumed = DensePart(model, WHOLE_TABLE, torch.zeros(size))
    resumed.load({key: value.clone() for key, value in before.state().items()})
    train(resumed, range(4, 6), last=size)
    assert torch.equal(resumed.weights_P, straight.weights_P)


def test_slots_are_named_by_optimizer():
    part = train(DensePart(TWO, WHOLE_TABLE, WEIGHTS_P), range(1))
    assert set(part.state()) == {WEIGHTS, NUM_STEPS, "1/step", "1/exp_avg", "1/exp_avg_sq"}
    assert len(part.state()["1/exp_avg"]) == 5
    lazy = train(DensePart(LAZY, WHOLE_TABLE, WEIGHTS_P[:5]), range(2), last=5)
    assert lazy.state()[NUM_STEPS].tolist() == [2.0]  # its updates depend on the step


def test_weights_without_slots_reset_the_optimizers():
    part = train(DensePart(TWO, WHOLE_TABLE, WEIGHTS_P), range(3))
    part.load({WEIGHTS: WEIGHTS_P})
    assert set(part.state()) == {WEIGHTS, NUM_STEPS}
    fresh = train(DensePart(TWO, WHOLE_TABLE, WEIGHTS_P), range(2))
    assert torch.equal(train(part, range(2)).weights_P, fresh.weights_P)
