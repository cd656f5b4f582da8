"""Parse single environment variables; errors name the variable and what was expected."""

import hashlib
from collections.abc import Mapping, Sequence

from fleetrec.core.errors import ConfigError

Variables = Mapping[str, str]

LOOPBACK = "127.0.0.1"
MASTER_HOST = "MASTER_ADDR"
MASTER_PORT = "MASTER_PORT"
DEFAULT_STORE_PORT = 29500  # torch's
FIRST_JOB_PORT, NUM_JOB_PORTS = 20000, 10000  # below the ports that systems give to clients


def is_given(variables: Variables, name: str) -> bool:
    """Return True if a variable is set and not blank."""
    return bool(variables.get(name, "").strip())


def text(variables: Variables, name: str, *, advice: str = "set the variable") -> str:
    """Return a variable that must be set."""
    if not is_given(variables, name):
        raise ConfigError([f"{name}: not in the environment; {advice}"])
    return variables[name].strip()


def number(variables: Variables, name: str, *, least: int, advice: str = "set the variable") -> int:
    """Return a variable that must be a whole number."""
    given = text(variables, name, advice=advice)
    if not (given.isascii() and given.isdecimal()) or int(given) < least:
        raise wrong(name, f"a whole number of at least {least}", given)
    return int(given)


def optional_number(variables: Variables, name: str, *, least: int, default: int) -> int:
    """Return a variable that must be a whole number if it is set."""
    return number(variables, name, least=least) if is_given(variables, name) else default


def rank_and_size(
    variables: Variables, rank: str, size: str, *, advice: str = "set the variable"
) -> tuple[int, int]:
    """Return the rank of this process and the number of processes."""
    count = number(variables, size, least=1, advice=advice)
    index = number(variables, rank, least=0, advice=advice)
    if index >= count:
        raise wrong(rank, f"a number below {size}={count}", str(index))
    return index, count


def endpoints(variables: Variables, name: str, *, advice: str = "set the variable") -> list[str]:
    """Return a list of host:port, separated by commas."""
    given = text(variables, name, advice=advice)
    found = [part.strip() for part in given.split(",")]
    check_endpoints(name, found, given)
    return found


def check_endpoints(name: str, found: Sequence[str], given: str) -> None:
    """Raise an error for entries that are not host:port, and for duplicates."""
    for endpoint in found:
        host, _, port = endpoint.rpartition(":")
        if not host or not is_port(port):
            raise wrong(name, "host:port, separated by commas", given)
    if len(set(found)) < len(found):
        raise wrong(name, "every host:port once", given)


def is_port(text: str) -> bool:
    """Return True if a text is the number of a port."""
    return text.isascii() and text.isdecimal() and 0 < int(text) < 1 << 16


def num_before_on_host(addresses: Sequence[str], index: int) -> int:
    """Return how many addresses before this one have the same host: the local rank."""
    hosts = [address.rpartition(":")[0] for address in addresses]
    return hosts[:index].count(hosts[index])


def master_store(variables: Variables, *, host: str | None, job: str, advice: str) -> str:
    """Return where ranks rendezvous whose launcher gives no address.

    MASTER_ADDR and MASTER_PORT decide if they are set. Otherwise the store is on ``host``, at a
    port that follows from ``job``, the launcher's name for this job: all its ranks compute the
    same one, and two jobs on a machine rarely do.
    """
    if host is None or is_given(variables, MASTER_HOST):
        host = text(variables, MASTER_HOST, advice=advice)
    port = job_port(job) if job else DEFAULT_STORE_PORT
    return f"{host}:{optional_number(variables, MASTER_PORT, least=1, default=port)}"


def job_port(job: str) -> int:
    """Return a port that follows from the launcher's name for a job."""
    return FIRST_JOB_PORT + int(hashlib.sha256(job.encode()).hexdigest(), 16) % NUM_JOB_PORTS


def wrong(name: str, expected: str, came: str) -> ConfigError:
    """Return the error for a variable with a wrong value."""
    return ConfigError([f"{name}: expected {expected}, got {came!r} in the environment"])
