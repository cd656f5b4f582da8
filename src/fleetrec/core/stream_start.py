"""Where a reader of a message stream starts."""

import dataclasses
import datetime
import json
import re
from collections.abc import Mapping
from typing import Literal

from fleetrec.core.errors import DataError

_TIME_FORMAT = "%Y%m%d %H:%M:%S"
_OFFSETS = re.compile(r"\d+:\d+(,\d+:\d+)*")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A position: an end of the stream, a time, or an offset for each partition."""

    at: Literal["earliest", "latest"] = "earliest"
    event_time_s: float | None = None
    offsets: Mapping[int, int] | None = None


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
