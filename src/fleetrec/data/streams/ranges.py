"""Where to start in a stream, and what to read of it at once."""

import contextlib
import dataclasses
import datetime
import itertools
import json
import re
from typing import Literal

from fleetrec.core.errors import DataError
from fleetrec.data.streams.client import Offsets, StreamClient, last_message
from fleetrec.data.streams.url import StreamUrl

MAX_MESSAGES = 1 << 18  # of one range; to resume in the middle of one, all of it before is read

_TIME_FORMAT = "%Y%m%d %H:%M:%S"
_OFFSETS = re.compile(r"\d+:\d+(,\d+:\d+)*")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A position: an end of the stream, a time, or an offset for each partition."""

    at: Literal["earliest", "latest"] = "earliest"
    event_time_s: float | None = None
    offsets: Offsets | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Some messages of one partition, never none; ``num_bytes`` is an estimate."""

    url: StreamUrl
    num_bytes: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """Messages of a stream up to the offsets ``ends``; ``time_ms`` is that of the newest one.

    It is 0 if there is no message.
    """

    ranges: tuple[Range, ...]
    ends: Offsets
    time_ms: int


def parse_start(text: str, *, where: str) -> Start:
    """Return a position.

    One of ``earliest``, ``latest``, seconds since 1970, ``20220907 12:00:00`` (in local time),
    ``0:5,1:7`` or ``{"0": 5, "1": 7}`` (partition: offset), ``{"timestamp": seconds}``.
    """
    text = text.strip()
    if text in ("earliest", "latest"):
        return Start(at="earliest" if text == "earliest" else "latest")
    if text.isascii() and text.isdigit():
        return Start(event_time_s=float(text))
    if _OFFSETS.fullmatch(text):
        pairs = (pair.split(":") for pair in text.split(","))
        return Start(offsets={int(partition): int(offset) for partition, offset in pairs})
    if text.startswith("{"):
        return _parse_json(text, where=where)
    try:
        time = datetime.datetime.strptime(text, _TIME_FORMAT)
    except ValueError:
        raise DataError(
            f"{where}: expected earliest, latest, seconds since 1970, a time such as "
            f"'20220907 12:00:00', or offsets by partition such as 0:5,1:7, got {text!r}"
        ) from None
    return Start(event_time_s=time.timestamp())


def offsets_of(client: StreamClient, start: Start) -> Offsets:
    """Return the offset of each partition.

    Partitions that ``start`` does not name begin at their oldest message.
    """
    begins = client.begin_offsets()
    if start.event_time_s is not None:
        return client.offsets_at(start.event_time_s)
    if start.offsets is None:
        return begins if start.at == "earliest" else client.end_offsets()
    unknown = sorted(set(start.offsets) - set(begins))
    if unknown:
        raise DataError(f"start: no partition {unknown[0]}; there are {sorted(begins)}")
    return {**begins, **start.offsets}


def num_messages(begins: Offsets, ends: Offsets) -> int:
    """Return how many offsets are between two positions; new partitions begin at 0."""
    return sum(max(0, end - begins.get(partition, 0)) for partition, end in ends.items())


def limited(begins: Offsets, ends: Offsets, limit: int) -> Offsets:
    """Return ends of at most ``limit`` messages, shared by the partitions as they have some."""
    total = num_messages(begins, ends)
    if total <= limit:
        return dict(ends)
    found, before = {}, 0
    for partition, end in sorted(ends.items()):
        begin = begins.get(partition, 0)
        after = before + max(0, end - begin)
        found[partition] = begin + after * limit // total - before * limit // total
        before = after
    return found


def first_time_ms(client: StreamClient, begins: Offsets, ends: Offsets) -> int:
    """Return the earliest timestamp of the first messages of all partitions; 0 if there is none."""
    times = []
    for partition, end in sorted(ends.items()):
        with contextlib.closing(client.read(partition, begins.get(partition, 0), end)) as blocks:
            times += [messages[0].time_ms for messages in itertools.islice(blocks, 1)]
    return min(times, default=0)


def freeze(
    client: StreamClient,
    url: StreamUrl,
    begins: Offsets,
    ends: Offsets,
    *,
    min_ranges: int = 1,
) -> Frozen:
    """Cut the messages between two positions into ranges of similar size.

    There are at least ``min_ranges`` if there are as many messages, so that each worker has some.
    """
    spans = {p: (begins.get(p, 0), end) for p, end in sorted(ends.items())}
    total = sum(max(0, end - begin) for begin, end in spans.values())
    limit = max(1, min(MAX_MESSAGES, total // max(1, min_ranges)))
    ranges: list[Range] = []
    time_ms = 0
    for partition, (begin, end) in spans.items():
        if begin >= end:
            continue
        last = last_message(client, partition, begin, end)
        if last is None:
            continue
        time_ms = max(time_ms, last.time_ms)
        for first, after in _parts(begin, end, limit):
            num_bytes = (after - first) * (len(last.value) + 1)
            part = url.to_range(partition, first, after)
            ranges.append(Range(url=part, num_bytes=num_bytes))
    return Frozen(ranges=tuple(ranges), ends=dict(ends), time_ms=time_ms)


def _parts(begin: int, end: int, limit: int) -> list[tuple[int, int]]:
    """Cut into equal parts of at most ``limit``."""
    count = -(-(end - begin) // limit)
    cuts = [begin + (end - begin) * i // count for i in range(count + 1)]
    return list(itertools.pairwise(cuts))


def _parse_json(text: str, *, where: str) -> Start:
    expected = 'expected {"partition": offset, ...} or {"timestamp": seconds}'
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{where}: {expected}, got {text!r}, which is not JSON") from error
    if not isinstance(found, dict) or not found:
        raise DataError(f"{where}: {expected}, got {text!r}")
    if set(found) == {"timestamp"} and isinstance(found["timestamp"], int | float):
        return Start(event_time_s=float(found["timestamp"]))
    offsets = {}
    for partition, offset in found.items():
        is_number = isinstance(offset, int) and not isinstance(offset, bool) and offset >= 0
        if not partition.isdigit() or not is_number:
            raise DataError(f"{where}: {expected}, got {text!r}")
        offsets[int(partition)] = offset
    return Start(offsets=offsets)
