"""Sends the head and the body of a response together, which uvicorn writes one after the other."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class JoinedWrites:
    """A transport that joins what is written in one turn of the event loop.

    Two packets per response would cost two calls of the system here, and two in the client.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._waiting: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        """Return what the transport has besides the methods below."""
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send data at the end of this turn."""
        if not self._waiting:
            self._loop.call_soon(self._send)
        self._waiting.append(data)

    def close(self) -> None:
        """Send what was written, then close."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._transport.write(b"".join(waiting))


class JoiningProtocol(HttpToolsProtocol):
    """HTTP with one write per response."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection."""
        joined: Any = JoinedWrites(transport, self.loop)
        super().connection_made(joined)
