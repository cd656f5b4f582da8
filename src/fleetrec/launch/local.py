"""The supervisor: starts the processes of a job on this machine, watches and ends them."""

import dataclasses
import logging
import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from fleetrec.core.env import STATUS, environment_with
from fleetrec.launch.child import Child
from fleetrec.launch.guard import Guard
from fleetrec.launch.job import JobSpec, Part, RoleSpec
from fleetrec.launch.log_tail import log_tail

logger = logging.getLogger(__name__)

INTERRUPTED = 130
POLL_S = 0.05
KILLED = 128  # from here on a shell means a signal
# What sysexits.h calls an internal error and a temporary failure: the process asks for another try.
TRY_AGAIN = (70, 75)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How patient a supervisor is."""

    max_restarts: int = 3  # of each process
    save_s: float = 60.0  # for workers to save themselves when the job is told to stop
    end_s: float = 10.0  # for a process to end when there is nothing left to do
    early_s: float = 5.0  # for workers to end after the servers


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a job ended; 0 is well. A failure names the log that tells why, with its last lines."""

    status: int
    failed: str = ""
    log: Path | None = None
    tail: Sequence[str] = ()

    @property
    def was_stopped(self) -> bool:
        """Whether the job ended because it was told to."""
        return self.status == INTERRUPTED and self.log is None


Watcher = Callable[[Sequence[Child]], None]


def num_threads(num_workers: int) -> int:
    """Return how many threads each worker may compute with, so that together they fill the CPU."""
    return max(1, len(os.sched_getaffinity(0)) // max(1, num_workers))


class Supervisor:
    """Runs one machine's part of a job."""

    def __init__(
        self,
        job: JobSpec,
        part: Part,
        *,
        log_dir: Path,
        policy: Policy,
        should_stop: Callable[[], bool],
        watch: Watcher = lambda _: None,
    ) -> None:
        self._job = job
        self._part = part
        self._log_dir = log_dir
        self._policy = policy
        self._should_stop = should_stop
        self._watch = watch
        self._guard = Guard()
        self._mentioned: set[str] = set()
        self._servers = [self._child(job.servers, index) for index in part.servers]
        self._workers = [self._child(job.workers, index) for index in part.workers]

    def run(self) -> Outcome:
        """Run the job to its end, whatever that is; leaves no process behind."""
        self._log_dir.mkdir(parents=True, exist_ok=True)
        for child in self._children():
            child.log.write_bytes(b"")
            child.status.unlink(missing_ok=True)
        with self._guard:
            try:
                for child in self._children():
                    child.start()
                return self._supervise()
            finally:
                for child in self._children():
                    child.kill()
                self._watch(self._children())
                for child in self._children():
                    child.status.unlink(missing_ok=True)

    def _supervise(self) -> Outcome:
        while not self._is_over():
            if self._should_stop():
                return self._stop()
            failed = self._look_after(self._children())
            if failed is not None:
                return self._give_up(failed)
            self._warn_of_early_ends()
            self._pause()
        self._end(self._servers, signal.SIGTERM, self._policy.end_s)
        return Outcome(status=0)

    def _is_over(self) -> bool:
        """Servers that other machines may still need end by themselves, when all workers have."""
        waited_for = self._workers if self._part.is_whole else self._children()
        return all(child.state == "finished" for child in waited_for)

    def _look_after(self, children: Iterable[Child]) -> Child | None:
        """Start the dead again; returns one for which that is of no use."""
        self._guard.renew()
        for child in children:
            if child.state != "running" or not child.has_ended():
                continue
            if child.returncode == 0:
                child.state = "finished"
            elif not self._may_restart(child):
                return child
            else:
                self._restart(child)
        return None

    def _may_restart(self, child: Child) -> bool:
        """A process that was killed may; one with an error of its own would only repeat it.

        Servers that have ended by themselves were told by all workers that they are not needed any
        more; a worker that is started after that would wait for them in vain.
        """
        status = child.returncode
        assert status is not None
        is_of_use = status < 0 or status >= KILLED or status in TRY_AGAIN
        is_too_late = child.role == "worker" and self._servers_have_ended()
        return is_of_use and not is_too_late and child.num_restarts < self._policy.max_restarts

    def _servers_have_ended(self) -> bool:
        return bool(self._servers) and all(server.state == "finished" for server in self._servers)

    def _restart(self, child: Child) -> None:
        how = child.how_it_ended()
        child.restart()
        count = f"{child.num_restarts} of {self._policy.max_restarts}"
        logger.warning("%s %s; started again (%s)", child.name, how, count)

    def _warn_of_early_ends(self) -> None:
        """Mention servers that ended well although workers go on, perhaps without them for ever."""
        for child in self._servers:
            is_over = child.state == "finished" and child.name not in self._mentioned
            if is_over and time.monotonic() - child.end_time > self._policy.early_s:
                self._mentioned.add(child.name)
                logger.warning("%s ended by itself while workers run", child.name)

    def _stop(self) -> Outcome:
        """Let workers save themselves while the servers are still there."""
        logger.warning("stopping; a second Ctrl-C stops at once")
        running = [child for child in self._workers if child.is_running]
        self._end(running, signal.SIGINT, self._policy.save_s, keep=self._servers)
        self._end(self._servers, signal.SIGTERM, self._policy.end_s)
        return Outcome(status=INTERRUPTED)

    def _give_up(self, failed: Child) -> Outcome:
        failed.state = "failed"
        assert failed.returncode is not None
        how = failed.how_it_ended()
        if failed.num_restarts:
            how += f" after {failed.num_restarts} restarts"
        if failed.role == "worker" and self._servers_have_ended():
            how += " when the servers had ended"
        logger.error("%s %s; stopping the job", failed.name, how)
        self._end(self._workers, signal.SIGTERM, self._policy.end_s)
        self._end(self._servers, signal.SIGTERM, self._policy.end_s)
        code = failed.returncode
        return Outcome(
            status=code if code > 0 else KILLED - code,
            failed=f"{failed.name} {how}",
            log=failed.log,
            tail=log_tail(failed.log),
        )

    def _end(
        self,
        children: Sequence[Child],
        number: signal.Signals,
        patience_s: float,
        *,
        keep: Sequence[Child] = (),
    ) -> None:
        """Ask processes to end, and kill those that do not in time."""
        for child in children:
            child.send(number)
        deadline = time.monotonic() + patience_s
        while not all(child.has_ended() for child in children):
            if time.monotonic() > deadline:
                break
            self._look_after(keep)
            self._pause()
        for child in children:
            if child.is_running:
                logger.warning("%s did not end within %g s; killed", child.name, patience_s)
                child.kill()
            if child.state == "running":
                child.state = "finished" if child.returncode == 0 else "stopped"

    def _pause(self) -> None:
        self._watch(self._children())
        time.sleep(POLL_S)

    def _children(self) -> list[Child]:
        return [*self._servers, *self._workers]

    def _child(self, role: RoleSpec, index: int) -> Child:
        log = self._log_dir / f"{role.log_name}.{index}"
        status = self._log_dir / f".{log.name}.json"
        added = {STATUS: str(status.resolve()), **self._job.environment(role, index)}
        unless_set = {
            "PYTHONUNBUFFERED": "1",  # a log that lags behind a crash is of no use
            "OMP_NUM_THREADS": str(num_threads(len(self._part.workers))),
        }
        return Child(
            role=role.name,
            name=f"{role.name}.{index}",
            command=role.command,
            env=environment_with(added, unless_set=unless_set),
            log=log,
            status=status,
            guard=self._guard,
        )
