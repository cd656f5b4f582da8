"""Start ranks on this machine by torchrun's agent, which starts all of them again if one dies."""

import contextlib
import dataclasses
import logging
import os
import secrets
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from fleetrec.core.env import STORE, unless_set
from fleetrec.launch.child import ENTER
from fleetrec.launch.local import INTERRUPTED, KILLED, Outcome, Policy, num_threads
from fleetrec.launch.log_tail import log_tail

LOOK_S = 0.2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RankJob:
    """Ranks that run the same command; which one it is, each learns from its environment."""

    command: tuple[str, ...]
    count: int
    log_dir: Path  # where each writes its own log


def run_ranks(job: RankJob, *, policy: Policy, watch: Callable[[], None]) -> Outcome:
    """Run all ranks until they are done; ``watch`` is called now and then."""
    logging.getLogger("torch.distributed.elastic").setLevel(logging.ERROR)
    with (
        _store() as endpoint,
        tempfile.TemporaryDirectory(prefix="fleetrec-ranks-") as meeting,
        _called_now_and_then(watch),
    ):
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=job.count,
            run_id=secrets.token_hex(8),
            role="rank",
            rdzv_backend="c10d",
            rdzv_endpoint=str(Path(meeting) / "store"),
            rdzv_configs={"store_type": "file"},  # nothing listens but the store of the ranks
            local_addr="127.0.0.1",
            max_restarts=policy.max_restarts,
            monitor_interval=0.1,
            shutdown_timeout=int(policy.save_s),
            logs_specs=DefaultLogsSpecs(log_dir=meeting),
        )
        enter = (sys.executable, "-I", "-S", str(ENTER), str(os.getpid()))
        settings = [
            f"{STORE}={endpoint}",
            *unless_set(
                {
                    "GLOO_SOCKET_IFNAME": "lo",
                    "TORCH_CPP_LOG_LEVEL": "ERROR",  # what DDP has to say is for its developers
                    "PYTHONUNBUFFERED": "1",
                    "OMP_NUM_THREADS": str(num_threads(job.count)),
                }
            ),
        ]
        command = (*enter, "env", *settings, *job.command)
        try:
            elastic_launch(config, entrypoint=command[0])(*command[1:])
        except ChildFailedError as error:
            return _failure(error, job)
        except SignalException:
            return Outcome(status=INTERRUPTED)
    return Outcome(status=0)


def _failure(error: ChildFailedError, job: RankJob) -> Outcome:
    """Say how the rank ended that failed first."""
    rank, failure = min(error.failures.items(), key=lambda item: item[1].timestamp)
    if failure.exitcode == INTERRUPTED:
        return Outcome(status=INTERRUPTED)
    log = log_of(job.log_dir, rank)
    code = failure.exitcode
    how = f"ended with status {code}" if code > 0 else f"was killed by {failure.signal_name()}"
    return Outcome(
        status=code if code > 0 else KILLED - code,
        failed=f"rank {rank} {how}",
        log=log,
        tail=log_tail(log),
    )


def log_of(log_dir: Path, rank: int) -> Path:
    """Return the log of a rank."""
    return log_dir / f"worker.{rank}"


@contextlib.contextmanager
def _store() -> Iterator[str]:
    """Give the address of a store on loopback; it lasts as long as the block."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        store = TCPStore(
            "127.0.0.1",
            port,
            is_master=True,
            wait_for_workers=False,
            master_listen_fd=os.dup(listener.fileno()),
        )
        yield f"127.0.0.1:{port}"
        del store


@contextlib.contextmanager
def _called_now_and_then(watch: Callable[[], None]) -> Iterator[None]:
    """Call ``watch`` from a thread while the block runs, and once behind it."""
    is_over = threading.Event()

    def go() -> None:
        while not is_over.wait(LOOK_S):
            watch()

    thread = threading.Thread(target=go, name="fleetrec-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        watch()
