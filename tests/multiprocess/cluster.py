"""Real servers and workers as processes of this machine, which tests may kill."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

TESTS = Path(__file__).parents[1]
TOKEN = "a secret of this test"
DEADLINE_S = 300.0


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class LocalCluster:
    """Servers and workers of one run; all of them end with the block."""

    def __init__(self, folder, *, num_workers, num_servers, server_options=()):
        self.folder = Path(folder)
        self.num_workers = num_workers
        self.num_servers = num_servers
        self.endpoints = [f"127.0.0.1:{free_port()}" for _ in range(num_servers)]
        self.servers = [None] * num_servers
        self.workers = [None] * num_workers
        self._server_options = list(server_options)
        self._environment = {**os.environ, "FLEETREC_TOKEN": TOKEN, "OMP_NUM_THREADS": "1"}
        self._streams = contextlib.ExitStack()
        self.folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self):
        for index in range(self.num_servers):
            self.start_server(index)
        return self

    def __exit__(self, *_):
        for process in [*self.workers, *self.servers]:
            if process is not None:
                process.kill()
                process.wait()
        self._streams.close()

    def start_server(self, index):
        self.servers[index] = self._start(
            f"server.{index}",
            "fleetrec.server",
            *("--index", str(index)),
            *("--num-servers", str(self.num_servers)),
            *("--num-workers", str(self.num_workers)),
            *("--endpoint", self.endpoints[index]),
            *("--directory", str(self.folder / f"held.{index}")),
            *self._server_options,
        )

    def start_worker(self, index, job, *, mode, extra=(), module="multiprocess.worker_child"):
        self.workers[index] = self._start(
            f"worker.{index}",
            module,
            *(str(job), mode, str(index), str(self.num_workers), ",".join(self.endpoints)),
            *extra,
        )

    def start_workers(self, job, *, mode, extra=()):
        for index in range(self.num_workers):
            self.start_worker(index, job, mode=mode, extra=extra)

    def kill_server(self, index):
        self.servers[index].kill()
        self.servers[index].wait()

    def kill_worker(self, index):
        self.workers[index].kill()
        self.workers[index].wait()

    def pause(self, process):
        process.send_signal(signal.SIGSTOP)

    def go_on(self, process):
        process.send_signal(signal.SIGCONT)

    def wait_for_servers(self):
        for endpoint in self.endpoints:
            with grpc.insecure_channel(endpoint) as channel:
                health_pb2_grpc.HealthStub(channel).Check(
                    health_pb2.HealthCheckRequest(), wait_for_ready=True, timeout=DEADLINE_S
                )

    def wait_for(self, condition):
        """Wait until something has happened."""
        end = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < end, f"nothing happens\n{self.tails()}"
            time.sleep(0.02)

    def is_done(self):
        return all(worker.poll() is not None for worker in self.workers)

    def wait(self):
        """Wait until all workers have ended well."""
        end = time.monotonic() + DEADLINE_S
        while not self.is_done():
            assert time.monotonic() < end, f"no end in sight\n{self.tails()}"
            failed = [w for w in self.workers if w.poll() not in (None, 0, -signal.SIGKILL)]
            assert not failed, self.tails()
            time.sleep(0.02)
        assert all(worker.returncode == 0 for worker in self.workers), self.tails()

    def tails(self):
        return "\n".join(
            f"== {path.name}\n{path.read_text()[-2000:]}"
            for path in sorted(self.folder.glob("*.log"))
        )

    def log_of(self, name):
        return (self.folder / f"{name}.log").read_text()

    def _start(self, name, module, *arguments):
        stream = self._streams.enter_context((self.folder / f"{name}.log").open("ab"))
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdout=stream,
            stderr=stream,
            cwd=TESTS,
            env=self._environment,
        )
