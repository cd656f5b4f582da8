"""Run by ``ray job submit`` on the cluster: starts the processes of a job and watches them."""

import contextlib
import dataclasses
import json
import logging
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fleetrec.core.env import STATE
from fleetrec.core.launchers.own import place_environment
from fleetrec.core.place import Place, Role
from fleetrec.launch.job_spec import INTERRUPTED, SERVER, WORKER, JobSpec, RoleSpec
from fleetrec.launch.ray_replica import IDLE, Replica
from fleetrec.launch.stored_job import read_stored_job

logger = logging.getLogger(__name__)

FOLDER = Path("ray-job")
POLL_S = 0.5
WAIT_NOTICE_S = 60.0
ANSWER_S = 120.0  # of an actor, whose machine may have to start a process for it
RETURN_S = 300.0  # for an actor to be restarted by Ray
SERVERS_END_S = 60.0  # after the last worker


class JobFailedError(Exception):
    """A process cannot be restarted again."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Placing:
    """How the processes of a job are placed and restarted."""

    strategy: str
    max_restarts: int
    grace_s: float
    work_path: str
    state_path: str | None


@dataclasses.dataclass(slots=True, kw_only=True)
class Member:
    """A process of the job, and the actor that runs it."""

    role: RoleSpec
    index: int
    actor: Any
    host: str = ""
    port: int = 0
    num_restarts: int = 0
    is_finished: bool = False
    lost_since: float | None = None

    @property
    def name(self) -> str:
        """The name for messages."""
        return f"{self.role.name}.{self.index}"


class Driver:
    """Starts and restarts the processes of one job."""

    def __init__(self, job: JobSpec, placing: Placing) -> None:
        self._job = job
        self._placing = placing
        self._incarnation = 0
        self.is_stopped = False
        roles = [role for role in (job.servers, job.workers) if role is not None]
        bundles = [bundle_of(role) for role in roles for _ in range(role.replicas)]
        group = _place(bundles, placing.strategy)
        replicas = [(role, index) for role in roles for index in range(role.replicas)]
        self._members = [
            Member(role=role, index=index, actor=_actor(role, index, group, number, placing))
            for number, (role, index) in enumerate(replicas)
        ]

    def run(self) -> int:
        """Run the job to its end; returns the exit status."""
        try:
            self._find_hosts(self._members)
            for member in self._members:
                self._start(member)
            while not all(member.is_finished for member in self._of(WORKER)):
                if self.is_stopped:
                    self._stop()
                    return INTERRUPTED
                for member in self._members:
                    self._tend(member)
                time.sleep(POLL_S)
            self._end_servers()
        except JobFailedError as error:
            logger.error("%s", error)
            return 1
        finally:
            for member in self._members:
                with _lost_actors():
                    _answer(member.actor.kill.remote())
        first = self._of(WORKER)[0]
        logger.info("all workers completed; results: %s on %s", self._folder(first), first.host)
        return 0

    def _of(self, role: str) -> list[Member]:
        return [member for member in self._members if member.role.name == role]

    def _find_hosts(self, members: list[Member]) -> None:
        for member in members:
            member.host = _answer(member.actor.host.remote())
            if member.role.num_ports:
                member.port = _answer(member.actor.free_port.remote())

    def _tend(self, member: Member) -> None:
        """Look whether a process has ended; start it again if it should be."""
        if member.is_finished:
            return
        status: int | str | None = IDLE
        with _lost_actors():
            status = _answer(member.actor.poll.remote())
            member.lost_since = None if status != IDLE else member.lost_since
        if status is None:
            return
        if status == 0:
            member.is_finished = True
            return
        if status == IDLE:
            self._after_lost_actor(member)
            return
        self._count(member, f"ended with status {status}")
        self._restart(member)

    def _after_lost_actor(self, member: Member) -> None:
        """Wait until Ray has restarted the actor; then start its process, maybe elsewhere."""
        if member.lost_since is None:
            member.lost_since = time.monotonic()
            self._count(member, "was lost with its actor")
        host = None
        with _lost_actors():
            host = _answer(member.actor.host.remote())
        if host is None:
            if time.monotonic() - member.lost_since > RETURN_S:
                raise JobFailedError(f"{member.name}: Ray did not restart it in {RETURN_S:g} s")
            return
        member.lost_since = None
        if host == member.host:
            self._restart(member)
        else:
            self._move(member, host)

    def _move(self, member: Member, host: str) -> None:
        """Start a process on another machine; workers learn the new address of a server."""
        logger.warning("%s: moves from %s to %s", member.name, member.host, host)
        if member.role.name == SERVER and self._placing.state_path is None:
            raise JobFailedError(
                f"{member.name}: its machine {member.host} is lost, and its state with it; set "
                "ray.state_path to a folder that all machines share"
            )
        self._find_hosts([member])
        self._restart(member)
        if member.role.name == SERVER:
            for worker in self._of(WORKER):
                if not worker.is_finished:
                    _answer(worker.actor.kill.remote())
                    self._start(worker)

    def _restart(self, member: Member) -> None:
        """Start a process again; ranks all start again together."""
        if member.role.restart != "all":
            self._start(member)
            return
        self._incarnation += 1
        ranks = self._of(WORKER)
        for rank in ranks:
            with _lost_actors():
                _answer(rank.actor.kill.remote())
        with _lost_actors():  # the next look at it starts all again
            self._find_hosts(ranks)
        for rank in ranks:
            rank.is_finished = False
            self._start(rank)

    def _count(self, member: Member, how: str) -> None:
        member.num_restarts += 1
        most = self._placing.max_restarts
        if member.role.restart == "never" or member.num_restarts > most:
            raise JobFailedError(f"{member.name} {how}; it was started {member.num_restarts} times")
        logger.warning(
            "%s %s; started again (%d of %d)", member.name, how, member.num_restarts, most
        )

    def _start(self, member: Member) -> None:
        environment = {
            "PYTHONUNBUFFERED": "1",
            "OMP_NUM_THREADS": str(member.role.resources.cpus or 1),
            **self._job.env,
            **member.role.environment(member.index),
            **place_environment(self._place_of(member)),
        }
        if member.role.name == SERVER:
            environment[STATE] = self._state(member)
        started = member.actor.start.remote(
            list(member.role.command), environment, self._folder(member)
        )
        with _lost_actors():  # the next look at it finds that out
            _answer(started)

    def _place_of(self, member: Member) -> Place:
        servers, workers = self._of(SERVER), self._of(WORKER)
        is_rank = not servers
        name: Role = "worker" if member.role.name == WORKER else "server"
        return Place(
            role=name,
            rank=member.index,
            num_workers=len(workers),
            local_rank=[
                other.index for other in self._of(member.role.name) if other.host == member.host
            ].index(member.index),
            server_endpoints=tuple(f"{server.host}:{server.port}" for server in servers),
            store=f"{workers[0].host}:{workers[0].port}" if is_rank else None,
            is_store_host=is_rank and member.index == 0,
            incarnation=self._incarnation,
            launcher="Ray",
        )

    def _folder(self, member: Member) -> str:
        return f"{self._placing.work_path}/{member.name}"

    def _state(self, member: Member) -> str:
        return f"{self._placing.state_path or self._placing.work_path}/state/{member.index}"

    def _stop(self) -> None:
        """Let the workers save themselves."""
        workers = self._of(WORKER)
        for worker in workers:
            with _lost_actors():
                _answer(worker.actor.send.remote(int(signal.SIGTERM)))
        _wait_until_ended(workers, self._placing.grace_s)

    def _end_servers(self) -> None:
        """Wait for servers, which end when the workers have finished, and remove their state."""
        servers = self._of(SERVER)
        _wait_until_ended(servers, SERVERS_END_S)
        for server in servers:
            with _lost_actors():
                _answer(server.actor.kill.remote())
                _answer(server.actor.remove.remote(self._state(server)))


def bundle_of(role: RoleSpec) -> dict[str, float]:
    """Return what a process reserves in the cluster."""
    needs = role.resources
    found: dict[str, float] = {"CPU": float(needs.cpus or 1)}
    if needs.gpus:
        found["GPU"] = float(needs.gpus)
    if needs.memory_bytes is not None:
        found["memory"] = float(needs.memory_bytes)
    return found


def _place(bundles: list[dict[str, float]], strategy: str) -> Any:
    """Reserve what all processes need, and wait until the cluster has it."""
    import ray

    cluster: Any = ray
    group = cluster.util.placement_group(bundles, strategy=strategy)
    while not group.wait(WAIT_NOTICE_S):
        logger.warning(
            "waiting for %d processes to fit, %s: the cluster has %s",
            len(bundles),
            bundles[-1],
            cluster.cluster_resources(),
        )
    return group


def _actor(role: RoleSpec, index: int, group: Any, number: int, placing: Placing) -> Any:
    import ray
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    needs = role.resources
    options = {
        "num_cpus": needs.cpus or 1,
        "num_gpus": needs.gpus,
        "max_restarts": placing.max_restarts,
        "scheduling_strategy": PlacementGroupSchedulingStrategy(
            placement_group=group, placement_group_bundle_index=number
        ),
    }
    if needs.memory_bytes is not None:
        options["memory"] = needs.memory_bytes
    return ray.remote(Replica).options(**options).remote(f"{role.name}.{index}")


def _answer(reference: Any) -> Any:
    import ray

    return ray.get(reference, timeout=ANSWER_S)


@contextlib.contextmanager
def _lost_actors() -> Iterator[None]:
    """Continue if the actor has died; Ray may restart it."""
    from ray.exceptions import GetTimeoutError, RayActorError

    try:
        yield
    except (GetTimeoutError, RayActorError) as error:
        logger.debug("%s", error)


def _wait_until_ended(members: list[Member], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        statuses: list[object] = []
        for member in members:
            with _lost_actors():
                statuses.append(_answer(member.actor.poll.remote()))
        if None not in statuses:
            return
        time.sleep(POLL_S)


def main() -> int:
    """Run the job of the working folder; returns the exit status."""
    import ray

    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s")
    job = read_stored_job(FOLDER).job
    placing = Placing(**json.loads((FOLDER / "driver.json").read_text(encoding="utf-8")))
    ray.init()
    driver = Driver(job, placing)

    def stop(*_: object) -> None:
        driver.is_stopped = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    return driver.run()


if __name__ == "__main__":
    sys.exit(main())
