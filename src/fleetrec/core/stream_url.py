"""URLs of message streams, and of ranges of messages in them.

``kafka://host:9092,host2:9092/topic`` and ``nats://host:4222/STREAM`` are streams. With
``partition``, ``begin`` and ``end`` (exclusive) in the query, they are ranges of messages.
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import Literal, Self, cast
from urllib.parse import parse_qsl, quote, unquote, urlencode

from fleetrec.core import storage
from fleetrec.core.errors import DataError

Scheme = Literal["kafka", "nats"]
ClientOptions = tuple[tuple[str, str], ...]  # names and values, for the client library

SCHEMES = ("kafka", "nats")
RETRY_S = 120.0  # how long a broker may be away
_KEYS = ("partition", "begin", "end", "start", "subject", "config_file", "retry_s")
_SECRET = re.compile(r"password|passwd|secret|token|seed|credential|jaas|\.pem$|\.key$", re.I)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StreamUrl:
    """A stream, or with ``partition``, ``begin`` and ``end`` a range of its messages.

    ``start`` is where readers of the whole stream begin. ``config_file`` holds options of the
    client, among them all secrets; ``options`` are those in the URL. A broker that does not answer
    is tried again for ``retry_s``.
    """

    scheme: Scheme
    hosts: str
    topic: str
    partition: int | None = None
    begin: int | None = None
    end: int | None = None
    start: str | None = None
    subject: str | None = None
    config_file: str | None = None
    retry_s: float = RETRY_S
    options: ClientOptions = ()

    @property
    def is_range(self) -> bool:
        """Return whether this is a range of messages."""
        return self.partition is not None

    @property
    def stream(self) -> Self:
        """Return the stream that a range is in."""
        return dataclasses.replace(self, partition=None, begin=None, end=None, start=None)

    @property
    def name(self) -> str:
        """Return a short name: the topic, and the offsets of a range."""
        if not self.is_range:
            return self.topic
        return f"{self.topic}/{self.partition}/{self.begin}-{self.end}"

    @property
    def shown(self) -> str:
        """Return brokers and topic, for messages."""
        return f"{self.scheme}://{self.hosts}/{self.topic}"

    def to_range(self, partition: int, begin: int, end: int) -> Self:
        """Return a range of this stream."""
        return dataclasses.replace(
            self.stream, partition=partition, begin=begin, end=end, start=None
        )

    def __str__(self) -> str:
        given = [(key, getattr(self, key)) for key in _KEYS]
        query = [(key, f"{value:g}" if key == "retry_s" else value) for key, value in given]
        if self.retry_s == RETRY_S:
            query = [(key, value) for key, value in query if key != "retry_s"]
        query = [(key, value) for key, value in query if value is not None]
        text = urlencode([*query, *self.options], safe="/:,*")
        return f"{self.scheme}://{self.hosts}/{quote(self.topic)}{'?' if text else ''}{text}"


def is_stream(path: str) -> bool:
    """Return whether a path is the URL of a stream, or of a range of one."""
    return path.partition("://")[0] in SCHEMES and "://" in path


def parse_url(text: str) -> StreamUrl:
    """Parse the URL of a stream or a range; raises DataError."""
    if not is_stream(text):
        raise DataError(f"{storage.shown(text)}: expected kafka://... or nats://...")
    scheme, _, rest = text.partition("://")
    place, _, query_text = rest.partition("?")
    hosts, _, topic = place.partition("/")
    shown = f"{scheme}://{hosts.rpartition('@')[2]}/{topic}"
    if "@" in hosts:
        raise DataError(f"{shown}: {_no_secrets('user and password')}")
    topic = unquote(topic.strip("/"))
    if not hosts or not topic or "/" in topic:
        raise DataError(f"{shown}: expected {scheme}://host:port/{_topic_word(scheme)}")
    query = _query(query_text, shown)
    return StreamUrl(
        scheme=cast(Scheme, scheme),
        hosts=hosts,
        topic=topic,
        subject=query.get("subject"),
        start=query.get("start"),
        config_file=query.get("config_file"),
        retry_s=_number(query.get("retry_s", str(RETRY_S)), shown, key="retry_s"),
        options=tuple((key, value) for key, value in query.items() if key not in _KEYS),
        **_range(query, scheme, shown),
    )


def is_secret(key: str) -> bool:
    """Return whether the value of a client option must not be shown."""
    return _SECRET.search(key) is not None


def masked(text: str, options: Mapping[str, str]) -> str:
    """Return a text without the values of secret options, on one line."""
    for key, value in options.items():
        if is_secret(key) and value:
            text = text.replace(value, "***")
    return " ".join(text.split())


def _topic_word(scheme: str) -> str:
    return "topic" if scheme == "kafka" else "STREAM"


def _query(text: str, shown: str) -> dict[str, str]:
    query: dict[str, str] = {}
    for key, value in parse_qsl(text, keep_blank_values=True):
        if key in query:
            raise DataError(f"{shown}: {key} is given twice")
        if is_secret(key):
            raise DataError(f"{shown}: {_no_secrets(key)}")
        if key not in _KEYS and "." not in key:
            listed = ", ".join(_KEYS)
            raise DataError(
                f"{shown}: {key!r} is unknown; expected {listed}, or an option of the client, "
                "which has a dot in its name, such as fetch.max.bytes"
            )
        query[key] = value
    return query


def _no_secrets(what: str) -> str:
    return (
        f"{what} must not be in a URL, which is logged and stored; write a file of lines "
        "key=value and name it by config_file=PATH"
    )


def _range(query: Mapping[str, str], scheme: str, shown: str) -> dict[str, int | None]:
    given = [key for key in ("begin", "end") if key in query]
    partition = query.get("partition")
    if partition is None and scheme == "nats" and given:
        partition = "0"  # a stream of NATS is one partition
    if partition is None and not given:
        return {}
    if partition is None or len(given) < 2:
        raise DataError(f"{shown}: partition, begin and end are given together, or none of them")
    begin, end = (_offset(query[key], shown, key=key) for key in ("begin", "end"))
    if end < begin:
        raise DataError(f"{shown}: end ({end}) is before begin ({begin})")
    return {"partition": _offset(partition, shown, key="partition"), "begin": begin, "end": end}


def _offset(text: str, shown: str, *, key: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise DataError(f"{shown}: {key}: expected a whole number from 0 on, got {text!r}")
    return int(text)


def _number(text: str, shown: str, *, key: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise DataError(f"{shown}: {key}: expected seconds, got {text!r}")
    return value
