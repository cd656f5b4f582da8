"""What to read of a stream at once."""

import contextlib
import dataclasses
import itertools

from fleetrec.core.errors import DataError
from fleetrec.core.stream_start import Start
from fleetrec.core.stream_url import StreamUrl
from fleetrec.data.streams.client import Offsets, StreamClient, last_message

MAX_MESSAGES = 1 << 18  # of one range; to resume in the middle of one, all of it before is read


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
