"""The EVICT message: when rows are evicted, and by which rules."""

import dataclasses

import numpy as np

from fleetrec.server.wire import Array, Message, WireError


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EvictionRequest:
    """Rows are evicted at event time ``now``; by age and score only where a pass ``ends_day``.

    ``max_unseen_days`` replaces that of the tables.
    """

    now: int
    ends_day: bool
    max_unseen_days: int | None = None

    def to_array(self) -> Array:
        """Return the array of the message."""
        days = 0 if self.max_unseen_days is None else self.max_unseen_days + 1
        return np.array([self.now, int(self.ends_day), days], np.uint64)


def read_eviction(message: Message) -> EvictionRequest:
    """Decode an EVICT message; raises WireError if it is not valid."""
    values = [int(value) for value in message.array(0, np.uint64)]
    if len(values) == 1:  # in journals of earlier versions, where every pass ended a day
        values += [1, 0]
    if len(values) != 3 or values[0] >= 1 << 32 or values[1] > 1 or values[2] >= 1 << 32:
        raise WireError("expected an event time of 32 bits, 1 if a day ends, and days plus 1 or 0")
    now, ends_day, days = values
    return EvictionRequest(
        now=now, ends_day=bool(ends_day), max_unseen_days=days - 1 if days else None
    )
