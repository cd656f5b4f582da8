"""A service that answers lookups and refuses changes."""

import numpy as np
import pytest
import torch

from fleetrec.embedding.sharding import WHOLE_TABLE
from fleetrec.server.read_only import ReadOnlyService
from fleetrec.server.shard import Shard
from fleetrec.server.wire import Kind, Message, WireError, text_array
from unit.server.serving import MODEL, make_push

NONE = np.zeros(0, np.int64)


@pytest.fixture
def service():
    shard = Shard(MODEL, WHOLE_TABLE, torch.zeros(MODEL.num_dense))
    shard.apply([make_push()])
    return ReadOnlyService(shard)


def pull(service, ids, **fields):
    arrays = [np.zeros(2, np.uint64), np.array(ids), NONE]
    return service.handle(Message(kind=Kind.PULL, arrays=arrays, **fields))


def test_missing_rows_are_zeros_and_stay_missing(service):
    answer = pull(service, [7, 8])
    assert answer.arrays[2].tolist() == [1, 0]
    assert answer.arrays[1][1].tolist() == [0.0, 0.0]
    dump = service.handle(Message(kind=Kind.DUMP, arrays=[text_array("t")]))
    assert dump.arrays[0].tolist() == [7]


def test_metrics_count_the_rows_that_were_read(service):
    pull(service, [7, 8])
    pull(service, [7])
    metrics = service.metrics()
    assert metrics["rows_read_total"] == 3.0
    assert metrics["table_rows"] == {"t": 1.0, "u": 0.0}


@pytest.mark.parametrize("kind", [Kind.SETUP, Kind.PUSH, Kind.CLEAR, Kind.LOAD, Kind.CUT])
def test_changes_are_refused(service, kind):
    with pytest.raises(WireError, match=f"{kind.name}: this server is read-only"):
        service.handle(Message(kind=kind))
    with pytest.raises(WireError, match="PULL: this server is read-only"):
        pull(service, [7], sequence=1)
