"""One server and one worker against a single process, and what a server's journal costs."""

import contextlib
import dataclasses
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

from benchmarks.figure import Figure, ratios
from benchmarks.job import HIDDEN, dnn_phase, train_part
from benchmarks.served_steps import measure_journal, warm_pages
from fleetrec.config.job import ClusterOptions, CommunicatorOptions
from fleetrec.core.place import Place
from fleetrec.parallel.worker_group import PsMode, WorkerGroup
from fleetrec.server.client import ClientOptions
from fleetrec.server.serve import SNAPSHOT_BYTES

TARGET = 0.6
DEADLINE_S = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class Traffic:
    """What has gone through the door of a server."""

    num_calls: float
    num_bytes: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server in a process of its own."""

    endpoint: str
    metrics_port: int

    def traffic(self) -> Traffic:
        """Ask the server how much it has done."""
        url = f"http://127.0.0.1:{self.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as page:
            lines = page.read().decode().splitlines()
        found = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        num_bytes = [float(found[f"fleetrec_bytes_{way}_total"]) for way in ("in", "out")]
        return Traffic(float(found["fleetrec_calls_total"]), sum(num_bytes))


def measure(
    parts: Sequence[Path], *, batch_size: int, num_rounds: int, hidden: Sequence[int] = HIDDEN
) -> list[Figure]:
    """Warm up on the first part, then train on one part per round: alone, and with a server."""
    assert num_rounds < len(parts), f"{num_rounds} rounds need {num_rounds + 1} parts"
    folder = parts[0].parent
    modes: dict[str, tuple[PsMode, bool]] = {
        "sync": ("sync", False),
        "async": ("async", False),
        "async, pull_ahead": ("async", True),
    }
    with contextlib.ExitStack() as stack:
        state = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fleetrec-bench-")))
        warm_pages(state)
        phases = {"alone": dnn_phase(folder, batch_size=batch_size, hidden=hidden)}
        servers: dict[str, Server] = {}
        for name, (mode, pull_ahead) in modes.items():
            servers[name] = stack.enter_context(serving(state / name))
            group = worker_group(servers[name], mode, pull_ahead=pull_ahead)
            stack.callback(group.close, finished=False)
            phases[name] = dnn_phase(folder, batch_size=batch_size, hidden=hidden, group=group)
        speeds: dict[str, list[float]] = {name: [] for name in phases}
        loads: list[Traffic] = []
        for number, part in enumerate(parts[: num_rounds + 1]):
            for name, phase in phases.items():
                before = servers[name].traffic() if name in servers else None
                begin = time.perf_counter()
                num_rows = train_part(phase, part)
                phase.stepper.end_pass(number, now=0, ends_day=True)
                seconds = time.perf_counter() - begin
                speeds[name].append(num_rows / seconds)
                if before is not None and name == "async, pull_ahead":
                    loads.append(_per_second(before, servers[name].traffic(), seconds))
    figures = [Figure(name="server: one process", values=speeds["alone"][1:], unit="rows/s")]
    figures += [
        Figure(
            name=f"server: 1 + 1, {name}",
            values=speeds[name][1:],
            unit="rows/s",
            ratios=ratios(speeds[name][1:], speeds["alone"][1:]),
            target=TARGET,
        )
        for name in modes
    ]
    figures += [
        Figure(name="server: calls", values=[one.num_calls for one in loads[1:]], unit="calls/s"),
        Figure(name="server: bytes", values=[one.num_bytes for one in loads[1:]], unit="bytes/s"),
        *measure_journal(parts[:2], batch_size=batch_size, num_rounds=num_rounds, hidden=hidden),
    ]
    return figures


@contextlib.contextmanager
def serving(directory: Path, *, snapshot_bytes: int = SNAPSHOT_BYTES) -> Iterator[Server]:
    """Run a server; gives it when it answers."""
    endpoint, metrics_port = f"127.0.0.1:{_free_port()}", _free_port()
    told = ["--index", "0", "--num-servers", "1", "--num-workers", "1", "--endpoint", endpoint]
    more = ["--directory", str(directory), "--metrics-port", str(metrics_port)]
    more += ["--snapshot-bytes", str(snapshot_bytes)]
    command = [sys.executable, "-m", "fleetrec.server", *told, *more]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        server = Server(endpoint=endpoint, metrics_port=metrics_port)
        try:
            _wait_for(server.traffic)
            yield server
        finally:
            process.terminate()


def worker_group(server: Server, mode: PsMode, *, pull_ahead: bool) -> WorkerGroup:
    """Return the only worker of a server."""
    return WorkerGroup(
        Place(server_endpoints=(server.endpoint,)),
        ClusterOptions(strategy=mode, communicator=CommunicatorOptions(pull_ahead=pull_ahead)),
        device=torch.device("cpu"),
        client=ClientOptions(give_up_s=DEADLINE_S),
    )


def _per_second(before: Traffic, after: Traffic, seconds: float) -> Traffic:
    return Traffic(
        (after.num_calls - before.num_calls) / seconds,
        (after.num_bytes - before.num_bytes) / seconds,
    )


def _wait_for(works: Callable[[], object]) -> None:
    end = time.monotonic() + DEADLINE_S
    while True:
        try:
            works()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            return


def _free_port() -> int:
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
