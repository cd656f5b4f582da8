"""Ports that are reserved before a process listens, and while it is restarted."""

import contextlib
import errno
import socket
from collections.abc import Collection, Iterator, Sequence

from fleetrec.core.errors import ConfigError


@contextlib.contextmanager
def reserved_endpoints(
    endpoints: Sequence[str], *, own: Collection[int]
) -> Iterator[tuple[str, ...]]:
    """Hold the ports of this machine while the block runs; port 0 becomes a free one.

    The sockets are bound and do not listen. The system then does not assign their ports to others,
    while a server that allows an address to be reused, as servers do, can bind and listen.
    """
    with contextlib.ExitStack() as stack:
        yield tuple(
            _reserve(stack, endpoint) if index in own else endpoint
            for index, endpoint in enumerate(endpoints)
        )


def _reserve(stack: contextlib.ExitStack, endpoint: str) -> str:
    host, _, port = endpoint.rpartition(":")
    holder = stack.enter_context(socket.socket())
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        holder.setsockopt(socket.SOL_SOCKET, option, 1)
    try:
        holder.bind((host, int(port)))
    except OSError as error:
        raise ConfigError([f"server endpoint {endpoint}: {_reason(error)}"]) from error
    return f"{host}:{holder.getsockname()[1]}"


def _reason(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the port is in use; choose another --start_port, or none for free ports"
    if error.errno in (errno.EADDRNOTAVAIL, socket.EAI_NONAME):
        return "not an address of this machine; give --node_ip the one that it has"
    return f"cannot be used: {error.strerror}"
