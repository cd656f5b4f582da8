"""Start the processes of a job on this machine."""

import contextlib
import dataclasses
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from fleetrec.core.env import STATUS, environment_with
from fleetrec.core.launchers.own import place_environment
from fleetrec.core.launchers.values import LOOPBACK
from fleetrec.core.place import Place, Role
from fleetrec.launch.child import Child
from fleetrec.launch.job_spec import WORKER, JobSpec, Launcher, Outcome, RoleSpec, RunningJob
from fleetrec.launch.orphan_reaper import OrphanReaper
from fleetrec.launch.placement import Placement, assign_replicas
from fleetrec.launch.ports import reserved_endpoints
from fleetrec.launch.supervisor import Policy, Supervisor

POLL_S = 0.05
RENDERED = "job.json"

Watcher = Callable[[Sequence[Child]], None]


def num_threads(num_workers: int) -> int:
    """Return how many threads each worker may use, so that all of them fill the CPU."""
    return max(1, len(os.sched_getaffinity(0)) // max(1, num_workers))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LocalLauncher(Launcher):
    """Runs a job as processes of this machine, or one machine's replicas of it.

    With ``prepares_run`` the caller prepares the run folder and writes the report, and processes
    do not. With ``keep_logs`` logs of an earlier start are appended to.
    """

    policy: Policy = dataclasses.field(default_factory=Policy)
    placement: Placement | None = None
    prepares_run: bool = False
    keep_logs: bool = False

    def render(self, job: JobSpec, folder: Path) -> list[Path]:
        """Write the job as JSON, without the values of secrets."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / RENDERED
        path.write_text(json.dumps(job.describe(), indent=1) + "\n", encoding="utf-8")
        return [path]

    def start(self, job: JobSpec, folder: Path) -> "LocalJob":
        """Reserve ports and start all processes; their logs go to ``folder``."""
        return LocalJob(job, folder, self)


class LocalJob(RunningJob):
    """The processes of a job on this machine."""

    def __init__(self, job: JobSpec, folder: Path, options: LocalLauncher) -> None:
        self._job = job
        self._folder = folder
        self._options = options
        self._placement = options.placement or assign_replicas(
            num_workers=job.workers.replicas,
            num_servers=job.servers.replicas if job.servers else 0,
        )
        with contextlib.ExitStack() as stack:
            self._reserve_ports(stack)
            reaper = OrphanReaper()
            stack.callback(reaper.close)
            self.children = [
                self._child(role, index, reaper)
                for role in sorted(job.roles, key=lambda role: role.name)  # servers first
                for index in self._local_indexes(role)
            ]
            self._prepare_folder()
            stack.callback(self._remove_status)
            stack.callback(self._kill)
            self._supervisor = Supervisor(
                self.children,
                restart={role.name: role.restart for role in job.roles},
                policy=options.policy,
                environment=self._environment,
                is_only_machine=self._placement.local.is_only_machine,
                reaper=reaper,
            )
            self._supervisor.start()
            self._resources = stack.pop_all()

    @property
    def server_endpoints(self) -> tuple[str, ...]:
        """Where the servers of the job listen."""
        return self._endpoints

    def poll(self) -> Outcome | None:
        """Restart what has died, if it should be; return the outcome once the job has ended."""
        outcome = self._supervisor.poll()
        if outcome is not None:
            self.close()
        return outcome

    def stop(self) -> None:
        """Let workers save themselves, then end everything."""
        self._supervisor.stop()

    def logs(self) -> list[Path]:
        """Return the logs of the processes on this machine."""
        return [child.log for child in self.children]

    def close(self) -> None:
        """Kill what still runs, and release the ports."""
        self._resources.close()

    def _reserve_ports(self, stack: contextlib.ExitStack) -> None:
        """Hold the ports of the servers, or of the ranks' store, as long as the job runs."""
        self._endpoints: tuple[str, ...] = ()
        self._store: str | None = None
        if self._job.servers is not None:
            endpoints, own = self._placement.endpoints, self._placement.local.servers
            if len(endpoints) != self._job.servers.replicas:
                raise ValueError(
                    f"{self._job.servers.replicas} servers, but {len(endpoints)} endpoints"
                )
            self._endpoints = stack.enter_context(reserved_endpoints(endpoints, own=own))
        elif self._job.workers.num_ports:
            (self._store,) = stack.enter_context(reserved_endpoints([f"{LOOPBACK}:0"], own=(0,)))

    def _prepare_folder(self) -> None:
        """Empty the logs of this job, and remove those of an earlier one with more replicas."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for role in self._job.roles:
            for path in self._folder.glob(f"{role.log(0)[:-1]}*"):
                number = path.name.rpartition(".")[2]
                if number.isdecimal() and int(number) >= role.replicas:
                    path.unlink()
        for child in self.children:
            if not self._options.keep_logs:
                child.log.write_bytes(b"")
            child.status.unlink(missing_ok=True)

    def _kill(self) -> None:
        for child in self.children:
            child.kill()

    def _remove_status(self) -> None:
        for child in self.children:
            child.status.unlink(missing_ok=True)

    def _local_indexes(self, role: RoleSpec) -> tuple[int, ...]:
        local = self._placement.local
        return local.workers if role.name == WORKER else local.servers

    def _child(self, role: RoleSpec, index: int, reaper: OrphanReaper) -> Child:
        log = self._folder / role.log(index)
        is_rank = role.name == WORKER and self._job.servers is None
        return Child(
            role=role.name,
            index=index,
            name=f"rank {index}" if is_rank else f"{role.name}.{index}",
            command=role.command,
            log=log,
            status=self._folder / f".{log.name}.json",
            reaper=reaper,
        )

    def _environment(self, child: Child) -> dict[str, str]:
        role = self._job.workers if child.role == WORKER else self._job.servers
        assert role is not None
        threads = role.resources.cpus or num_threads(len(self._placement.local.workers))
        defaults = {
            "PYTHONUNBUFFERED": "1",  # a log that lags behind a crash is of no use
            "OMP_NUM_THREADS": str(threads),
        }
        if self._store is not None:  # all ranks are on this machine
            defaults |= {"GLOO_SOCKET_IFNAME": "lo", "TORCH_CPP_LOG_LEVEL": "ERROR"}
        added = {
            STATUS: str(child.status.resolve()),
            **self._job.env,
            **role.environment(child.index),
            **place_environment(self._place(child, role)),
        }
        return environment_with(added, unless_set=defaults)

    def _place(self, child: Child, role: RoleSpec) -> Place:
        name: Role = "worker" if child.role == WORKER else "server"
        return Place(
            role=name,
            rank=child.index,
            num_workers=self._job.workers.replicas,
            local_rank=self._local_indexes(role).index(child.index),
            server_endpoints=self._endpoints,
            store=self._store,
            is_store_host=self._store is not None and child.index == 0,
            incarnation=child.num_restarts,
            is_supervised=self._options.prepares_run,
        )


def run_job(
    running: LocalJob,
    *,
    should_stop: Callable[[], bool] = lambda: False,
    watch: Watcher = lambda _: None,
) -> Outcome:
    """Poll a job until it has ended; ``watch`` is called after every poll."""
    while (outcome := running.poll()) is None:
        if should_stop():
            running.stop()
        watch(running.children)
        time.sleep(POLL_S)
    watch(running.children)
    return outcome
