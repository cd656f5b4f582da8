"""The description of a model that all servers share."""

import pytest
from pydantic import ValidationError

from fleetrec.config.job import OptimizerOptions
from fleetrec.embedding.sharding import TableShard
from fleetrec.server.spec import ServedModel, read_model
from fleetrec.server.wire import Kind, Message, WireError, json_array
from unit.server.serving import MODEL

TWO = ServedModel(
    tables=MODEL.tables,
    table_optimizers=(1, 0),
    dense_sizes=(3, 5),
    optimizers=(OptimizerOptions(name="sgd", lr=0.5), OptimizerOptions(name="adam", lr=0.1)),
    seed=0,
    mode="async",
)


def test_a_model_survives_the_wire():
    assert read_model(Message(kind=Kind.SETUP, arrays=[json_array(TWO.to_plain())])) == TWO


def test_a_model_that_is_not_valid_is_refused():
    plain = TWO.to_plain() | {"dense_sizes": [3]}
    with pytest.raises(WireError, match="one size of at least 0 for every optimizer"):
        read_model(Message(kind=Kind.SETUP, arrays=[json_array(plain)]))


@pytest.mark.parametrize("indexes", [(0,), (0, 2), (-1, 0)])
def test_every_table_has_an_optimizer_that_exists(indexes):
    with pytest.raises(ValidationError, match="table_optimizers"):
        ServedModel.model_validate(TWO.to_plain() | {"table_optimizers": indexes})


def test_tables_use_the_first_optimizer_unless_another_is_named():
    assert [MODEL.table_optimizer(i).name for i in (0, 1)] == ["sgd", "sgd"]
    assert [TWO.table_optimizer(i).name for i in (0, 1)] == ["adam", "sgd"]


def test_dense_segments_of_all_servers_cover_every_optimizer_once():
    segments = [TWO.dense_segments(TableShard(index=i, count=3)) for i in range(3)]
    assert segments == [[(0, 0, 2)], [(0, 2, 3), (1, 0, 2)], [(1, 2, 5)]]


def test_differences_name_the_fields():
    assert TWO.differences(TWO) == []
    assert TWO.differences(TWO.model_copy(update={"seed": 1, "mode": "sync"})) == ["seed", "mode"]
