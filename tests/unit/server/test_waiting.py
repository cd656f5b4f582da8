"""In sync all wait for the slowest worker, and say for whom."""

import logging
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from fleetrec.server import client as client_module
from unit.server.serving import MODEL, connected, make_step, serving

DEADLINE_S = 60
SYNC = MODEL.model_copy(update={"mode": "sync"})


def test_a_worker_that_waits_says_for_whom(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(client_module, "_WARN_AFTER_S", 0.0)
    with (
        serving(tmp_path, num_workers=3) as endpoints,
        connected(endpoints, model=SYNC, num_workers=3) as first,
        connected(endpoints, model=SYNC, num_workers=3, index=1) as second,
        connected(endpoints, model=SYNC, num_workers=3, index=2) as third,
        caplog.at_level(logging.WARNING, logger="fleetrec.server.client"),
        ThreadPoolExecutor(2) as threads,
    ):
        first.set_up(np.zeros(MODEL.num_dense, np.float32))
        for client in (first, second, third):
            client.register()
            client.push(make_step(), sequence=1)
        waiting = [threads.submit(client.pull, {}, sequence=2) for client in (first, third)]
        end = time.monotonic() + DEADLINE_S
        while f"server {endpoints[0]} waits for worker 1" not in caplog.messages:
            assert time.monotonic() < end
            assert not any(future.done() for future in waiting)
            time.sleep(0.02)
        second.pull({}, sequence=2)
        for future in waiting:
            future.result(timeout=DEADLINE_S)
