"""A whole server: it serves until it is stopped or all workers have finished."""

import socket
import threading
import time
import urllib.request

import numpy as np

from fleetrec.server.endpoint import Security
from fleetrec.server.serve import ServerOptions, serve
from unit.server.serving import MODEL, TOKEN, connected, make_step

DEADLINE_S = 60


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Running:
    """A server in a thread."""

    def __init__(self, directory, **options):
        self.endpoint = f"127.0.0.1:{free_port()}"
        self.is_stopped = threading.Event()
        given = ServerOptions(
            index=0,
            num_servers=1,
            num_workers=1,
            endpoint=self.endpoint,
            directory=directory,
            security=Security(token=TOKEN),
            **options,
        )
        self.thread = threading.Thread(
            target=serve, args=(given,), kwargs={"is_stopped": self.is_stopped}
        )
        self.thread.start()

    def stop(self):
        self.is_stopped.set()
        self.thread.join(DEADLINE_S)
        assert not self.thread.is_alive()


def test_a_restarted_server_continues(tmp_path):
    running = Running(tmp_path / "state")
    with connected([running.endpoint]) as client:
        client.set_up(np.zeros(MODEL.num_dense, np.float32))
        client.register()
        client.push(make_step(grads_P=np.ones(MODEL.num_dense, np.float32)), sequence=1)
    running.stop()
    running = Running(tmp_path / "state")
    with connected([running.endpoint]) as client:
        assert client.admin.dense_state()["weights"].tolist() == [-1.0] * MODEL.num_dense
    running.stop()


def test_a_server_stops_when_all_workers_have_finished(tmp_path):
    running = Running(tmp_path / "state")
    with connected([running.endpoint]) as client:
        client.finish()
    running.thread.join(DEADLINE_S)
    assert not running.thread.is_alive()


def test_status_and_metrics_are_published(tmp_path):
    status, port = tmp_path / "status", free_port()
    running = Running(tmp_path / "state", status=status, metrics_port=port)
    with connected([running.endpoint]) as client:
        client.register()
    end = time.monotonic() + DEADLINE_S
    while not status.exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        assert "fleetrec_calls_total" in answer.read().decode()
    running.stop()
