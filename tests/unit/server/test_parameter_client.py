"""A worker sees several servers as one."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fleetrec.config.job import OptimizerOptions
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


def test_a_restarted_worker_finds_its_last_push(client):
    push(client)
    known = client.register()
    assert (known.sequence, known.progress, known.num_passes) == (1, b"row 3", 0)
    assert client.last_known_sequence == 1


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
