"""Rows that a new server starts with."""

import numpy as np
import pytest
import torch

from fleetrec.checkpoint.folder import write_folder
from fleetrec.core.errors import CheckpointError
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.sharding import WHOLE_TABLE, TableShard
from fleetrec.embedding.table import RowOptimizer
from fleetrec.server.initial import initial_tables, load_initial_rows
from fleetrec.server.shard import Shard
from making import save_store
from unit.server.serving import MODEL

IDS = np.arange(20)


def write_checkpoint(tmp_path, *, tables=("t", "u"), parts=("learn",)):
    """Write a checkpoint of which every table has rows; returns its path."""
    records = {part: {} for part in parts}
    url = tmp_path / "checkpoint"
    staged = {}
    for config in MODEL.tables:
        if config.name not in tables:
            continue
        store = NativeStore(config, RowOptimizer(name="sgd"), seed=7)
        store.table.pull(IDS % (config.num_rows or len(IDS)), create=True)
        staged[config.name] = store
    for part in parts:
        for name, store in staged.items():
            saved = save_store(store, tmp_path / "made" / part / name)
            records[part][name] = saved.record.to_plain()
    contents = {
        f"{part}/tables/{name}/{path.name}": path.read_bytes()
        for part in parts
        for name in staged
        for path in (tmp_path / "made" / part / name).iterdir()
    }
    write_folder(url, contents=contents, meta={"kind": "checkpoint", "tables": records})
    return str(url), staged


def make_shard(shard=WHOLE_TABLE):
    first, last = shard.part_of(MODEL.num_dense)
    return Shard(MODEL, shard, torch.zeros(last - first))


def rows_of(shard):
    return shard.stores["t"].snapshot()["ids"].tolist()


def test_every_server_loads_the_rows_of_its_shard(tmp_path):
    url, stores = write_checkpoint(tmp_path)
    shards = [make_shard(TableShard(index=index, count=2)) for index in range(2)]
    for shard in shards:
        load_initial_rows(shard, url)
    found = [rows_of(shard) for shard in shards]
    assert sorted(found[0] + found[1]) == IDS.tolist()
    assert found[0]
    assert found[1]
    expected = stores["t"].snapshot()
    whole = make_shard()
    load_initial_rows(whole, url)
    assert torch.equal(whole.stores["t"].snapshot()["rows"], expected["rows"])


def test_a_checkpoint_that_lacks_a_table_is_refused(tmp_path):
    url, _ = write_checkpoint(tmp_path, tables=("t",))
    with pytest.raises(CheckpointError, match="checkpoint: has no table 'u'"):
        load_initial_rows(make_shard(), url)


def test_a_checkpoint_of_several_models_is_refused_with_their_names(tmp_path):
    url, _ = write_checkpoint(tmp_path, parts=("first", "second"))
    with pytest.raises(CheckpointError, match="of one model, it has first, second"):
        initial_tables(url)
