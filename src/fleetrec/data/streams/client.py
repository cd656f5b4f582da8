"""Reading message streams by explicit offsets. Nothing is ever committed to a broker."""

import contextlib
import logging
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from fleetrec.core.errors import DataError
from fleetrec.core.stream_url import ClientOptions, StreamUrl, parse_url

logger = logging.getLogger(__name__)

T = TypeVar("T")

Offsets = Mapping[int, int]  # by partition

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 10.0


class Message(NamedTuple):
    """A message; ``time_ms`` is the timestamp that the broker has stored with it."""

    offset: int
    time_ms: int
    value: bytes


class NoAnswerError(Exception):
    """A broker cannot be reached, or does not answer; a later attempt may succeed."""


class StreamClient(Protocol):
    """A connection to one stream. An end offset is that of the next message.

    Methods raise DataError for what an attempt cannot change. Those of single connections raise
    NoAnswerError for what it can; ``open_stream`` makes these attempts.
    """

    def partitions(self) -> tuple[int, ...]:
        """Return the numbers of the partitions, ascending."""
        ...

    def begin_offsets(self) -> Offsets:
        """Return the offset of the oldest message of each partition that is still there."""
        ...

    def end_offsets(self) -> Offsets:
        """Return the offset after the newest message of each partition."""
        ...

    def offsets_at(self, event_time_s: float) -> Offsets:
        """Return the offset of the first message at or after a time, else the end offset."""
        ...

    def read(self, partition: int, begin: int, end: int) -> Generator[list[Message]]:
        """Yield the messages from ``begin`` to ``end`` (exclusive) in order, some at a time.

        Raises DataError if some are lost; one that never was in the partition, such as the mark of
        a transaction, is no message.
        """
        ...

    def close(self) -> None:
        """Disconnect."""
        ...


def open_stream(url: str | StreamUrl, options: ClientOptions = ()) -> StreamClient:
    """Return a client of the stream that a URL names; it connects at the first call.

    ``options`` are those of the client library (``sasl.password``, ...), besides the ones in the
    URL and in its ``config_file``. While a broker does not answer, calls are repeated for the
    ``retry_s`` of the URL, with a log line for each attempt; then they raise DataError.
    """
    parsed = parse_url(url) if isinstance(url, str) else url
    return _PatientClient(parsed, lambda: connect(parsed, options))


def connect(url: StreamUrl, options: ClientOptions = ()) -> StreamClient:
    """Return a client whose calls raise NoAnswerError at once."""
    merged = {**dict(url.options), **_read_config(url), **dict(options)}
    if url.scheme == "kafka":
        from fleetrec.data.streams.kafka import KafkaClient

        return KafkaClient(url, merged)
    from fleetrec.data.streams.nats import NatsClient

    return NatsClient(url, merged)


def last_message(client: StreamClient, partition: int, begin: int, end: int) -> Message | None:
    """Return the last message of a range; None if it has none, because all offsets are skipped."""
    width = 1
    while begin < end:
        first = max(begin, end - width)
        last = None
        for messages in client.read(partition, first, end):
            last = messages[-1]
        if last is not None:
            return last
        end, width = first, width * 8
    return None


class _PatientClient:
    """Makes calls again on a new connection while the broker does not answer."""

    def __init__(self, url: StreamUrl, connect: Callable[[], StreamClient]) -> None:
        self._url = url
        self._connect = connect
        self._client: StreamClient | None = None

    def partitions(self) -> tuple[int, ...]:
        return self._call(lambda client: client.partitions())

    def begin_offsets(self) -> Offsets:
        return self._call(lambda client: client.begin_offsets())

    def end_offsets(self) -> Offsets:
        return self._call(lambda client: client.end_offsets())

    def offsets_at(self, event_time_s: float) -> Offsets:
        return self._call(lambda client: client.offsets_at(event_time_s))

    def read(self, partition: int, begin: int, end: int) -> Generator[list[Message]]:
        patience = _Patience(self._url)
        while begin < end:
            try:
                for messages in self._connected().read(partition, begin, end):
                    begin = messages[-1].offset + 1
                    patience = _Patience(self._url)
                    yield messages
                return
            except NoAnswerError as error:
                self.close()
                patience.wait(error, f"offset {begin} of partition {partition}")

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connected(self) -> StreamClient:
        if self._client is None:
            self._client = self._connect()
        return self._client

    def _call(self, call: Callable[[StreamClient], T]) -> T:
        patience = _Patience(self._url)
        while True:
            try:
                return call(self._connected())
            except NoAnswerError as error:
                self.close()
                patience.wait(error, "offsets")


class _Patience:
    """Waits between attempts, twice as long each time, until the time is over."""

    def __init__(self, url: StreamUrl) -> None:
        self._url = url
        self._since = time.monotonic()
        self._num_failures = 0

    def wait(self, error: NoAnswerError, what: str) -> None:
        self._num_failures += 1
        passed_s = time.monotonic() - self._since
        where = f"{self._url.shown}: cannot read {what}: {error}"
        if passed_s >= self._url.retry_s:
            raise DataError(
                f"{where}; {self._num_failures} attempts in {passed_s:.0f} s (retry_s in the URL "
                "allows more)"
            ) from error
        wait_s = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** (self._num_failures - 1))
        wait_s = min(wait_s, self._url.retry_s - passed_s)
        logger.warning("%s; attempt %d follows", where, self._num_failures + 1)
        time.sleep(wait_s)


def _read_config(url: StreamUrl) -> dict[str, str]:
    """Return the options in the ``config_file``: lines of key=value, # begins a comment line."""
    if url.config_file is None:
        return {}
    path = Path(url.config_file)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise DataError(f"{url.shown}: config_file {path}: cannot be read: {reason}") from error
    options = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, separator, value = line.partition("=")
        if not separator:  # the line is not shown: it may hold a secret
            raise DataError(f"{url.shown}: config_file {path}:{number}: expected key=value")
        options[key.strip()] = value.strip()
    return options


@contextlib.contextmanager
def opened(url: str | StreamUrl, options: ClientOptions = ()) -> Iterator[StreamClient]:
    """Open a stream for the time of a block."""
    client = open_stream(url, options)
    try:
        yield client
    finally:
        client.close()
