"""Admin requests on a shard."""

import numpy as np
import pytest
import torch

from fleetrec.config.job import OptimizerOptions
from fleetrec.embedding.sharding import WHOLE_TABLE
from fleetrec.server import admin
from fleetrec.server.shard import Shard
from fleetrec.server.wire import Kind, Message, WireError, json_array, text_array
from unit.server.serving import MODEL, make_push

ADAM = MODEL.model_copy(update={"optimizers": (OptimizerOptions(name="adam", lr=0.1),)})


def make_shard(*, steps=0):
    shard = Shard(ADAM, WHOLE_TABLE, torch.zeros(ADAM.num_dense))
    for _ in range(steps):
        shard.apply([make_push()])
    return shard


def test_a_dense_state_can_be_moved_to_another_server():
    old, new = make_shard(steps=2), make_shard()
    answer = admin.dense(old, Message(kind=Kind.DENSE))
    assert answer.json() == ["weights", "num_steps", "0/step", "0/exp_avg", "0/exp_avg_sq"]
    admin.set_dense(new, Message(kind=Kind.SET_DENSE, arrays=answer.arrays))
    for shard in (old, new):
        shard.apply([make_push()])
    assert torch.equal(old.dense.weights_P, new.dense.weights_P)


@pytest.mark.parametrize(
    "state",
    [
        {"0/exp_avg": np.zeros(5)},
        {"weights": np.zeros(4)},
        {"weights": np.zeros(5), "exp_avg": np.zeros(5)},
        {"weights": np.zeros(5), "0/exp_avg": np.zeros(4)},
    ],
)
def test_a_dense_state_that_does_not_fit_is_refused(state):
    arrays = [json_array([*state]), *(value.astype(np.float32) for value in state.values())]
    with pytest.raises(WireError, match="expected"):
        admin.set_dense(make_shard(), Message(kind=Kind.SET_DENSE, arrays=arrays))


def test_dumps_and_statistics_show_the_rows():
    shard = make_shard(steps=1)
    answer = admin.dump(shard, Message(kind=Kind.DUMP, arrays=[text_array("t")]))
    assert (answer.arrays[0].tolist(), answer.arrays[1].shape) == ([7], (1, 2))
    content = admin.stats(shard, Message(kind=Kind.STATS)).json()
    assert content["tables"]["t"]["rows"] == 1
    assert content["model"] == ADAM.to_plain()


def test_an_unknown_table_is_refused():
    with pytest.raises(WireError, match="no table is called 'x'"):
        admin.dump(make_shard(), Message(kind=Kind.DUMP, arrays=[text_array("x")]))


def test_a_load_without_its_fields_is_refused():
    with pytest.raises(WireError, match="a field is missing or wrong"):
        admin.load(make_shard(), Message(kind=Kind.LOAD, arrays=[json_array({"tables": []})]))
