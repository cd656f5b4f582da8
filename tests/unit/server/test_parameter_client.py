"""A worker sees several servers as one."""

from concurrent.futures import ThreadPoolExecutor

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


def test_rows_and_dense_weights_are_joined_in_order(client):
    rows, dense_P = client.pull({"t": IDS}, sequence=1)
    assert dense_P.tolist() == list(range(TWO.num_dense))
    push(client)
    ids, dumped = client.admin.dump("t")
    assert ids.tolist() == IDS.tolist()
    again, moved_P = client.pull({"t": IDS}, sequence=2)
    assert np.array_equal(again["t"].rows_ND, dumped)
    assert not np.array_equal(again["t"].rows_ND, rows["t"].rows_ND)
    assert again["t"].is_there_N.tolist() == [1] * len(IDS)
    assert (moved_P < np.arange(TWO.num_dense)).all()
    assert client.num_steps == 1


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


def test_a_restarted_worker_finds_its_last_push(client):
    push(client)
    known = client.register()
    assert (known.sequence, known.progress, known.num_passes) == (1, b"row 3", 0)
    assert client.last_known_sequence == 1


def test_a_cut_has_one_version_on_all_servers(client):
    push(client)
    cut = client.admin.cut("a")
    assert cut.worker_progress == [b"row 3"]
    for parts in cut.tables.values():
        assert len(parts) == 3
        assert len({part["version"] for part in parts}) == 1
    assert sum(part["stats"]["rows"] for part in cut.tables["t"]) == len(IDS)
    assert np.array_equal(cut.dense["weights"], client.admin.dense_state()["weights"])


def test_an_all_gather_returns_contents_in_rank_order(tmp_path):
    with (
        serving(tmp_path, num_workers=2) as endpoints,
        connected(endpoints, num_workers=2) as first,
        connected(endpoints, num_workers=2, index=1) as second,
        ThreadPoolExecutor(1) as threads,
    ):
        pending = threads.submit(first.all_gather, b"a", key="x", number=0)
        assert second.all_gather(b"b", key="x", number=0) == [b"a", b"b"]
        assert pending.result(timeout=60) == [b"a", b"b"]


@pytest.mark.parametrize(
    ("key", "expected"), [("num_steps", True), ("0/step", True), ("0/exp_avg", False)]
)
def test_scalar_slots_are_known_by_name(key, expected):
    assert is_scalar_slot(key) == expected
