"""Watch the processes of a job: restart those that died, end the others."""

import dataclasses
import logging
import signal
import time
from collections.abc import Callable, Generator, Mapping, Sequence

from fleetrec.launch.child import Child
from fleetrec.launch.job_spec import INTERRUPTED, SERVER, WORKER, Outcome, Restart
from fleetrec.launch.log_tail import log_tail
from fleetrec.launch.orphan_reaper import OrphanReaper

logger = logging.getLogger(__name__)

KILLED = 128  # from here on a shell means a signal
# An internal error and a temporary failure in sysexits.h: the process asks for another try.
RETRYABLE_EXIT_CODES = (70, 75)

Polling = Generator[None, None, Outcome]
Environment = Callable[[Child], Mapping[str, str]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How often a supervisor restarts, and how long it waits."""

    max_restarts: int = 3  # of each process, or of all ranks
    save_timeout_s: float = 60.0  # for workers to save themselves when the job is stopped
    stop_timeout_s: float = 10.0  # for a process to end when there is nothing left to do
    early_exit_warn_s: float = 5.0  # for workers to end after the servers


class Supervisor:
    """Runs processes to the end of their job; ``poll`` does what is due and never blocks."""

    def __init__(
        self,
        children: Sequence[Child],
        *,
        restart: Mapping[str, Restart],
        policy: Policy,
        environment: Environment,
        is_only_machine: bool,
        reaper: OrphanReaper,
    ) -> None:
        self._children = children
        self._servers = [child for child in children if child.role == SERVER]
        self._workers = [child for child in children if child.role == WORKER]
        self._restart_rule = restart
        self._policy = policy
        self._environment = environment
        self._is_only_machine = is_only_machine
        self._reaper = reaper
        self._stop_requested = False
        self._warned: set[str] = set()
        self._polling = self._supervise()
        self._outcome: Outcome | None = None

    def start(self) -> None:
        """Start all processes."""
        for child in self._children:
            child.start(self._environment(child))

    def stop(self) -> None:
        """Let ``poll`` stop the job."""
        self._stop_requested = True

    def poll(self) -> Outcome | None:
        """Continue supervision; return the outcome once all processes have ended."""
        if self._outcome is None:
            try:
                next(self._polling)
            except StopIteration as end:
                self._outcome = end.value
        return self._outcome

    def _supervise(self) -> Polling:
        while not self._is_over():
            if self._stop_requested:
                return (yield from self._stop())
            failed = yield from self._restart_dead(self._children)
            if failed is not None:
                return (yield from self._fail(failed))
            self._warn_of_early_exits()
            yield
        yield from self._end(self._servers, signal.SIGTERM, self._policy.stop_timeout_s)
        return Outcome(status=0)

    def _is_over(self) -> bool:
        """Servers that other machines may still need end by themselves, when all workers have."""
        waited_for = self._workers if self._is_only_machine else self._children
        return all(child.state == "finished" for child in waited_for)

    def _restart_dead(self, children: Sequence[Child]) -> Generator[None, None, Child | None]:
        """Restart dead processes; return one that must not be restarted."""
        self._reaper.restart_if_dead()
        for child in children:
            if child.state != "running" or not child.has_ended():
                continue
            if child.returncode == 0:
                child.state = "finished"
                continue
            cause = child
            if self._restart_rule[child.role] == "all":
                cause = yield from self._find_cause(child)
            if not self._may_restart(cause):
                return cause
            self._restart(cause)
        return None

    def _find_cause(self, first: Child) -> Generator[None, None, Child]:
        """Return the rank because of which others have ended.

        A rank that loses another one ends with a status that asks for another try. Which one was
        lost, and whether it was killed or has made a mistake, is known only when it has ended.
        """
        ranks = [child for child in self._children if child.role == first.role]
        deadline = time.monotonic() + self._policy.stop_timeout_s
        while True:
            dead = [child for child in ranks if child.has_ended() and child.returncode]
            causes = sorted(
                (child for child in dead if child.returncode not in RETRYABLE_EXIT_CODES),
                key=lambda child: not _was_killed(child),
            )
            if causes:
                return causes[0]
            if all(child.has_ended() for child in ranks) or time.monotonic() > deadline:
                return first
            yield

    def _may_restart(self, child: Child) -> bool:
        """Return True if the process was killed; after an error of its own it would fail again.

        Servers end by themselves when all workers have said that they are done; a worker that is
        restarted after that would wait for them in vain.
        """
        is_retryable = _was_killed(child) or child.returncode in RETRYABLE_EXIT_CODES
        is_too_late = child.role == WORKER and self._servers_have_ended()
        return (
            is_retryable
            and not is_too_late
            and self._restart_rule[child.role] != "never"
            and child.num_restarts < self._policy.max_restarts
        )

    def _servers_have_ended(self) -> bool:
        return bool(self._servers) and all(server.state == "finished" for server in self._servers)

    def _restart(self, child: Child) -> None:
        how = child.exit_description()
        what, restarted = "started again", [child]
        if self._restart_rule[child.role] == "all":
            restarted = [other for other in self._children if other.role == child.role]
            what = f"all {len(restarted)} ranks started again"
            for other in restarted:
                other.kill()
        for other in restarted:
            other.num_restarts += 1
            other.start(self._environment(other))
        count = f"{child.num_restarts} of {self._policy.max_restarts}"
        logger.warning("%s %s; %s (%s)", child.name, how, what, count)

    def _warn_of_early_exits(self) -> None:
        """Warn of servers that ended although workers continue, which may wait for them forever."""
        for child in self._servers:
            is_new = child.state == "finished" and child.name not in self._warned
            if is_new and time.monotonic() - child.end_time > self._policy.early_exit_warn_s:
                self._warned.add(child.name)
                logger.warning("%s ended by itself while workers run", child.name)

    def _stop(self) -> Polling:
        """Let workers save themselves while the servers are still there."""
        logger.warning("stopping; a second Ctrl-C stops at once")
        running = [child for child in self._workers if child.is_running]
        yield from self._end(
            running, signal.SIGINT, self._policy.save_timeout_s, keep=self._servers
        )
        yield from self._end(self._servers, signal.SIGTERM, self._policy.stop_timeout_s)
        return Outcome(status=INTERRUPTED)

    def _fail(self, failed: Child) -> Polling:
        failed.state = "failed"
        assert failed.returncode is not None
        how = failed.exit_description()
        if failed.num_restarts:
            how += f" after {failed.num_restarts} restarts"
        if failed.role == WORKER and self._servers_have_ended():
            how += " when the servers had ended"
        logger.error("%s %s; stopping the job", failed.name, how)
        yield from self._end(self._workers, signal.SIGTERM, self._policy.stop_timeout_s)
        yield from self._end(self._servers, signal.SIGTERM, self._policy.stop_timeout_s)
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
        timeout_s: float,
        *,
        keep: Sequence[Child] = (),
    ) -> Generator[None, None, None]:
        """Ask processes to end, and kill those that do not in time."""
        for child in children:
            child.send(number)
        deadline = time.monotonic() + timeout_s
        while not all(child.has_ended() for child in children):
            if time.monotonic() > deadline:
                break
            yield from self._restart_dead(keep)
            yield
        for child in children:
            if child.is_running:
                logger.warning("%s did not end within %g s; killed", child.name, timeout_s)
                child.kill()
            if child.state == "running":
                child.state = "finished" if child.returncode == 0 else "stopped"


def _was_killed(child: Child) -> bool:
    assert child.returncode is not None
    return child.returncode < 0 or child.returncode >= KILLED
