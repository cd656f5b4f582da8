"""The hosts of a job without a cluster manager, and which replicas run on each."""

import dataclasses
import itertools
import re
from collections.abc import Sequence
from pathlib import Path

from fleetrec.core.errors import ConfigError
from fleetrec.core.partition import contiguous_block
from fleetrec.launch.job_spec import JobSpec
from fleetrec.launch.placement import LocalReplicas

SLOTS = r"[1-9]\d*"
ENTRY = re.compile(rf"(?P<name>[\w.-]+)(?::(?P<slots>{SLOTS}))?")
KEY = rf"\s+(?:slots\s*=\s*(?P<slots>{SLOTS})|(?!slots)[\w-]+\s*=\s*\w+)"
LINE = re.compile(rf"(?P<name>[\w.-]+)(?:{KEY})*")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host, and how many workers it takes; None is any number."""

    name: str
    slots: int | None


def parse_hosts(entries: Sequence[str]) -> list[Host]:
    """Parse entries ``name`` or ``name:slots``."""
    return _parse([("hosts", entry) for entry in entries], ENTRY, "name or name:slots")


def read_hostfile(path: Path) -> list[Host]:
    """Parse a hostfile of mpirun: lines ``name slots=4``, and comments after ``#``."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError([f"hostfile {path}: cannot be read: {error.strerror}"]) from error
    entries = [
        (f"{path}:{number}", text)
        for number, line in enumerate(lines, start=1)
        if (text := line.partition("#")[0].strip())
    ]
    if not entries:
        raise ConfigError([f"hostfile {path}: expected at least one host, got none"])
    return _parse(entries, LINE, "a host such as 'node1 slots=4'")


def assign_to_hosts(job: JobSpec, hosts: Sequence[Host]) -> dict[str, LocalReplicas]:
    """Assign the replicas of a job to hosts, in contiguous blocks; hosts without any are left out.

    Ranks fill the slots of the hosts in order. Servers, and workers of servers, are spread evenly;
    servers need no slots.
    """
    num_workers = job.workers.replicas
    num_servers = job.servers.replicas if job.servers else 0
    free = [num_workers if host.slots is None else host.slots for host in hosts]
    if sum(free) < num_workers:
        listed = ", ".join(f"{host.name}:{host.slots}" for host in hosts)
        raise ConfigError(
            [
                f"job {job.name}: {num_workers} workers, but its hosts have {sum(free)} slots: "
                f"{listed}; give them more slots, or none for any number"
            ]
        )
    fills = job.servers is None and all(host.slots is not None for host in hosts)
    counts = _filled(free, num_workers) if fills else _spread(free, num_workers)
    ends = itertools.accumulate(counts)
    workers = [range(end - count, end) for count, end in zip(counts, ends, strict=True)]
    servers = [contiguous_block(num_servers, i, len(hosts)) for i in range(len(hosts))]
    used = [
        (host.name, own_servers, own_workers)
        for host, own_servers, own_workers in zip(hosts, servers, workers, strict=True)
        if own_servers or own_workers
    ]
    return {
        name: LocalReplicas(
            servers=tuple(own_servers), workers=tuple(own_workers), is_only_machine=len(used) == 1
        )
        for name, own_servers, own_workers in used
    }


def _filled(free: Sequence[int], total: int) -> list[int]:
    """Return how many workers each host gets if the first ones are filled."""
    ends = [min(total, end) for end in itertools.accumulate(free)]
    return [end - start for start, end in itertools.pairwise([0, *ends])]


def _spread(free: Sequence[int], total: int) -> list[int]:
    """Return how many workers each host gets if all get one in turn, while they have slots."""
    counts = [0] * len(free)
    while total:
        for host, slots in enumerate(free):
            if total and counts[host] < slots:
                counts[host] += 1
                total -= 1
    return counts


def _parse(entries: Sequence[tuple[str, str]], form: re.Pattern[str], words: str) -> list[Host]:
    """Parse one host from each text; the first of each pair says where the text is.

    A host that is listed several times has the sum of its slots, where each time is at least one.
    """
    problems = []
    found: dict[str, int | None] = {}
    for where, text in entries:
        match = form.fullmatch(text)
        if match is None:
            problems.append(f"{where}: expected {words}, got {text!r}")
            continue
        name, slots = match["name"], int(match["slots"]) if match["slots"] else None
        found[name] = (found[name] or 1) + (slots or 1) if name in found else slots
    if problems:
        raise ConfigError(problems)
    return [Host(name=name, slots=slots) for name, slots in found.items()]
