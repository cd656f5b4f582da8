"""A range of messages as a binary file, one message per line."""

import io
from collections.abc import Generator

from fleetrec.core.errors import DataError
from fleetrec.core.stream_url import ClientOptions, StreamUrl, parse_url
from fleetrec.data.streams.client import Message, open_stream

SKIPPED_AT_ONCE = 1 << 22


class RangeReader(io.RawIOBase):
    """Reads a range in order; each message ends in a newline, its own or an added one.

    Every message is a line: one without content (or a deletion mark of Kafka) is an empty line, as
    in a text file. A message of several lines is an error. To seek, all messages before are read.
    """

    def __init__(self, url: str | StreamUrl, options: ClientOptions = ()) -> None:
        super().__init__()
        self._url = parse_url(url) if isinstance(url, str) else url
        if not self._url.is_range:
            raise DataError(f"{self._url.shown}: expected a range: partition, begin and end")
        self._client = open_stream(self._url.stream, options)
        self._messages = self._read_range()
        self._rest = memoryview(b"")
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return how many bytes were read."""
        return self._position

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes, at least one before the end; all if it is negative."""
        if size < 0:
            return b"".join(iter(lambda: self.read(SKIPPED_AT_ONCE), b""))
        while size and not self._rest:
            messages = next(self._messages, None)
            if messages is None:
                break
            self._rest = memoryview(self._to_lines(messages))
        taken, self._rest = self._rest[:size], self._rest[size:]
        self._position += len(taken)
        return bytes(taken)

    def readall(self) -> bytes:
        """Return all that is left."""
        return self.read()

    def seek(self, position: int, whence: int = io.SEEK_SET, /) -> int:
        """Read up to a position; from the beginning of the range if it is before this one."""
        if whence != io.SEEK_SET:
            raise io.UnsupportedOperation("the size of a stream is not known; read it as text")
        if position < self._position:
            self._messages.close()
            self._messages = self._read_range()
            self._rest, self._position = memoryview(b""), 0
        while self._position < position:
            if not self.read(min(SKIPPED_AT_ONCE, position - self._position)):
                break
        return self._position

    def close(self) -> None:
        """Disconnect."""
        if not self.closed:
            self._messages.close()
            self._client.close()
        super().close()

    def _read_range(self) -> Generator[list[Message]]:
        url = self._url
        assert url.partition is not None
        assert url.begin is not None
        assert url.end is not None
        return self._client.read(url.partition, url.begin, url.end)

    def _to_lines(self, messages: list[Message]) -> bytes:
        lines = [message.value.removesuffix(b"\n") for message in messages]
        lines.append(b"")
        text = b"\n".join(lines)
        if text.count(b"\n") != len(messages):
            bad = next(m for m, line in zip(messages, lines, strict=False) if b"\n" in line)
            raise DataError(
                f"{self._url.shown}: partition {self._url.partition}, offset {bad.offset}: "
                "expected one line, got several; write one sample per message"
            )
        return text
