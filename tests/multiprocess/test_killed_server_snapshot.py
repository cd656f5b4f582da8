"""A server is killed while it writes its own snapshot beside steps; every step is still there."""

import contextlib
import random
import time

import numpy as np
import pytest

from multiprocess.cluster import TOKEN, LocalCluster
from unit.server.serving import MODEL, connected, make_rows, make_step, serving

NUM_KILLS = 3
MAX_STEPS = 2000
IDS_PER_STEP = 20_000


class Twins:
    """The same steps to a server that is killed and to one that is not."""

    def __init__(self, clients):
        self.clients = clients
        self.num_steps = 0
        self._rng = np.random.default_rng(5)
        for client in clients:
            client.set_up(np.zeros(MODEL.num_dense, np.float32))
            client.register()

    def step(self):
        self.num_steps += 1
        ids_N = np.unique(self._rng.integers(0, 1 << 18, IDS_PER_STEP))
        grads_ND = self._rng.normal(size=(len(ids_N), 2))
        grads_P = self._rng.normal(size=MODEL.num_dense).astype(np.float32)
        step = make_step({"t": make_rows(ids_N, grads_ND)}, grads_P=grads_P)
        for client in self.clients:
            client.push(step, sequence=self.num_steps)

    def check_same(self):
        (ids, rows), (want_ids, want_rows) = (client.admin.dump("t") for client in self.clients)
        assert np.array_equal(ids, want_ids)
        assert np.array_equal(rows, want_rows)
        dense, want_dense = (client.admin.dense_state() for client in self.clients)
        assert {key: value.tolist() for key, value in dense.items()} == {
            key: value.tolist() for key, value in want_dense.items()
        }


@pytest.mark.multiprocess
def test_a_server_that_is_killed_while_it_writes_a_snapshot_loses_no_step(tmp_path):
    rng = random.Random(7)
    held = tmp_path / "held.0"
    num_kills = 0
    with contextlib.ExitStack() as stack:
        options = ["--snapshot-bytes", "1000000"]
        cluster = stack.enter_context(
            LocalCluster(tmp_path, num_workers=1, num_servers=1, server_options=options)
        )
        cluster.wait_for_servers()
        straight = stack.enter_context(serving(tmp_path / "straight", token=TOKEN))
        twins = Twins(
            [
                stack.enter_context(connected(endpoints, token=TOKEN))
                for endpoints in (cluster.endpoints, straight)
            ]
        )
        while num_kills < NUM_KILLS and twins.num_steps < MAX_STEPS:
            twins.step()
            if not any(held.glob(".snapshot-*")):
                continue
            twins.step()  # of which only the journal after the cut knows
            time.sleep(rng.uniform(0, 0.05))  # the moment is the point
            num_kills += any(held.glob(".snapshot-*"))
            cluster.kill_server(0)
            cluster.start_server(0)
            twins.check_same()
        while not any(held.glob("snapshot-*")):  # the next one is published
            assert twins.num_steps < MAX_STEPS
            twins.step()
        cluster.kill_server(0)
        cluster.start_server(0)
        twins.check_same()
    assert num_kills >= 1, "no snapshot was being written when the server was killed"
