"""Rows of a read-only server, for other programs."""

import numpy as np
import pytest
import torch

from fleetrec.core.errors import ConfigError
from fleetrec.embedding.sharding import WHOLE_TABLE
from fleetrec.server.endpoint import Endpoint, Security, only
from fleetrec.server.read_only import ReadOnlyService
from fleetrec.server.shard import Shard
from fleetrec.server.table_reader import TableReader
from unit.server.serving import MODEL, make_push


def test_rows_are_read_by_table():
    shard = Shard(MODEL, WHOLE_TABLE, torch.zeros(MODEL.num_dense))
    shard.apply([make_push()])
    expected = shard.stores["t"].table.snapshot()["rows"]
    service = ReadOnlyService(shard)
    with (
        Endpoint(only(service), "127.0.0.1:0", security=Security(), num_workers=1) as endpoint,
        TableReader(f"127.0.0.1:{endpoint.port}") as reader,
    ):
        assert reader.dims == {"t": 2, "u": 3}
        found = reader.read("t", [7, 8])
        assert np.array_equal(found.rows_ND[:1], expected)
        assert found.rows_ND[1].tolist() == [0.0, 0.0]
        assert found.is_there_N.tolist() == [True, False]
        assert reader.stats()["t"]["rows"] == 1
        with pytest.raises(ConfigError, match="no table is called 'x'; the server has t, u"):
            reader.read("x", [7])
