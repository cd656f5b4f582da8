"""The EVICT message."""

import numpy as np
import pytest

from fleetrec.server.evict_request import EvictionRequest, read_eviction
from fleetrec.server.wire import Kind, Message, WireError


def message_of(*values: int) -> Message:
    return Message(kind=Kind.EVICT, arrays=[np.array(values, np.uint64)])


@pytest.mark.parametrize("ends_day", [False, True])
@pytest.mark.parametrize("days", [None, 0, 30])
def test_a_request_is_read_as_it_was_written(ends_day, days):
    request = EvictionRequest(now=86_400, ends_day=ends_day, max_unseen_days=days)
    assert read_eviction(message_of(*request.to_array().tolist())) == request


def test_a_request_of_an_earlier_version_ends_a_day():
    assert read_eviction(message_of(86_400)) == EvictionRequest(now=86_400, ends_day=True)


@pytest.mark.parametrize("values", [(), (1, 1), (1, 1, 0, 0), (1 << 32, 1, 0), (1, 2, 0)])
def test_other_requests_are_refused(values):
    with pytest.raises(WireError, match="expected an event time"):
        read_eviction(message_of(*values))
