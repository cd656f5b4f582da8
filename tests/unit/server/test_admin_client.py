"""Requests about the whole state of all servers: dense state, cuts, dumps."""

import numpy as np
import pytest

from fleetrec.config.job import OptimizerOptions
from fleetrec.server.admin_client import is_scalar_slot
from unit.server.serving import MODEL, connected, make_rows, make_step, serving

IDS = np.arange(40)
TWO = MODEL.model_copy(
    update={
        "dense_sizes": (3, 4),
        "optimizers": (
            OptimizerOptions(name="adam", lr=0.1),
            OptimizerOptions(name="adagrad", lr=0.1),
        ),
    }
)


@pytest.fixture
def client(tmp_path):
    with serving(tmp_path, num_servers=3) as endpoints, connected(endpoints, model=TWO) as client:
        client.set_up(np.arange(TWO.num_dense, dtype=np.float32))
        client.register()
        yield client


def push(client, sequence=1):
    rows = make_rows(IDS, np.ones((len(IDS), 2)))
    grads_P = np.ones(TWO.num_dense, np.float32)
    client.push(make_step({"t": rows}, grads_P=grads_P, progress=b"row 3"), sequence=sequence)


def test_a_dense_state_is_read_and_written_whole(client):
    push(client)
    state = client.admin.dense_state()
    assert {key: len(value) for key, value in state.items()} == {
        "weights": 7,
        "num_steps": 1,
        "0/step": 1,
        "0/exp_avg": 3,
        "0/exp_avg_sq": 3,
        "1/step": 1,
        "1/sum": 4,
    }
    push(client, sequence=2)
    after = client.admin.dense_state()
    client.admin.set_dense(state)
    push(client, sequence=3)
    for key, value in client.admin.dense_state().items():
        assert np.array_equal(value, after[key]), key


def test_a_cut_has_one_version_on_all_servers(client):
    push(client)
    cut = client.admin.cut("a")
    assert cut.worker_progress == [b"row 3"]
    for parts in cut.tables.values():
        assert len(parts) == 3
        assert len({part["version"] for part in parts}) == 1
    assert sum(part["stats"]["rows"] for part in cut.tables["t"]) == len(IDS)
    assert np.array_equal(cut.dense["weights"], client.admin.dense_state()["weights"])


@pytest.mark.parametrize(
    ("key", "expected"), [("num_steps", True), ("0/step", True), ("0/exp_avg", False)]
)
def test_scalar_slots_are_known_by_name(key, expected):
    assert is_scalar_slot(key) == expected
