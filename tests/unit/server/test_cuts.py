"""A cut is the state at one moment, whatever steps and restarts follow."""

import numpy as np
import pytest
import torch

from fleetrec.core.errors import CheckpointError, MismatchError
from fleetrec.embedding.record import Chain, ShardRecord, StoredTable
from fleetrec.embedding.sharding import WHOLE_TABLE, merge_table_records
from fleetrec.server.shard import Shard
from fleetrec.server.spec import build_stores
from fleetrec.server.wire import Kind, WireError, json_array
from unit.server.serving import MODEL, RunningService


def cut(running, token="a", least=None):
    body = {"token": token, "least": least or {}}
    return running.call(Kind.CUT, incarnation=1, arrays=[json_array(body)])


def save(running, folder, token="a", *, parents=None):
    parents = parents or {}
    tables = {name: {"shards_each": 1, "parent": parents.get(name)} for name in ("t", "u")}
    body = {"token": token, "target": str(folder), "tables": tables}
    answer = running.call(Kind.SAVE, incarnation=1, arrays=[json_array(body)])
    stores = build_stores(MODEL, WHOLE_TABLE)
    return {
        name: merge_table_records(
            stores[name].identity, [ShardRecord.model_validate(record)], parent=None
        )
        for name, record in answer.json()["tables"].items()
        if not parents
    }


def commit(running, records, token="a", *, published=True):
    fingerprints = {name: record.fingerprint for name, record in records.items()}
    body = {"token": token, "published": published, "fingerprints": fingerprints}
    running.call(Kind.COMMIT, incarnation=1, arrays=[json_array(body)])


def rows_in(folder, record):
    """The rows of table t in a folder that was saved."""
    shard = Shard(MODEL, WHOLE_TABLE, torch.zeros(MODEL.num_dense))
    chain = Chain(urls=(str(folder / "t"),), fingerprint=record.fingerprint)
    shard.load_table(StoredTable(name="t", record=record, chain=chain), exactly=True)
    return shard.stores["t"].table.snapshot()["rows"].tolist()


@pytest.mark.parametrize("is_restarted", [False, True])
def test_files_hold_the_state_at_the_cut(tmp_path, is_restarted):
    running = RunningService(tmp_path / "server")
    running.push(1)
    expected = running.rows()
    answer = cut(running)
    running.push(2)
    if is_restarted:
        running.restart()
    records = save(running, tmp_path / "saved")
    assert rows_in(tmp_path / "saved", records["t"]) == expected != running.rows()
    assert answer.json()["num_workers"] == 1
    assert answer.array(1, np.uint8).tobytes() == b"1"  # the progress of worker 0
    assert answer.json(2) == ["weights", "num_steps"]
    assert answer.array(3, np.float32).tolist() == [-1.0] * MODEL.num_dense


def test_a_repeated_request_makes_no_second_cut(tmp_path):
    running = RunningService(tmp_path)
    running.push(1)
    first = cut(running)
    running.push(2)
    assert cut(running).array(3, np.float32).tolist() == first.array(3, np.float32).tolist()
    later = cut(running, token="b")
    assert later.array(3, np.float32).tolist() == [-2.0] * MODEL.num_dense


def test_a_cut_has_at_least_the_wanted_version(tmp_path):
    running = RunningService(tmp_path)
    assert cut(running).json()["tables"]["t"]["version"] < 9
    assert cut(running, least={"t": 9}).json()["tables"]["t"]["version"] == 9


def test_a_dropped_cut_cannot_be_saved(tmp_path):
    running = RunningService(tmp_path / "server")
    with pytest.raises(CheckpointError, match="dropped the cut"):
        save(running, tmp_path / "saved")
    cut(running)
    with pytest.raises(CheckpointError, match="dropped the cut"):
        save(running, tmp_path / "saved", token="b")
    running.call(Kind.HELLO, incarnation=2)  # worker 0 was restarted
    with pytest.raises(CheckpointError, match="dropped the cut"):
        save(running, tmp_path / "saved")


def test_a_delta_needs_a_committed_parent(tmp_path):
    running = RunningService(tmp_path / "server")
    cut(running)
    records = save(running, tmp_path / "base")
    commit(running, records)
    parents = {name: record.fingerprint for name, record in records.items()}
    running.push(1)
    described = cut(running, token="b").json()["tables"]
    assert {name: table["fingerprint"] for name, table in described.items()} == parents
    save(running, tmp_path / "delta", token="b", parents=parents)
    commit(running, {}, token="b", published=False)
    cut(running, token="c")
    with pytest.raises(MismatchError, match="write a full checkpoint instead"):
        save(running, tmp_path / "other", token="c", parents={"t": "0" * 16, "u": "0" * 16})


@pytest.mark.parametrize("restart_after", ["save", "commit", "cut of the delta"])
def test_a_restarted_server_writes_the_same_delta(restart_after, tmp_path):
    """Its journal says which cut was published, and a replay makes the same one."""
    rows = {}
    for name in ("never", restart_after):
        running = RunningService(tmp_path / name)
        running.push(1)
        cut(running)
        records = save(running, tmp_path / name / "base")
        if name == "save":
            running.restart()
        commit(running, records)
        running.push(2)
        if name == "commit":
            running.restart()
        parents = {table: record.fingerprint for table, record in records.items()}
        described = cut(running, token="b").json()["tables"]
        assert {table: found["fingerprint"] for table, found in described.items()} == parents
        if name == "cut of the delta":
            running.restart()
        running.push(3)
        save(running, tmp_path / name / "delta", token="b", parents=parents)
        rows[name] = [
            (file.name, file.read_bytes()) for file in sorted((tmp_path / name).glob("delta/*/*"))
        ]
    assert rows["never"]
    assert rows["never"] == rows[restart_after]


def test_wrong_requests_are_refused(tmp_path):
    running = RunningService(tmp_path / "server")
    cut(running)
    with pytest.raises(WireError, match="CUT: a field is missing or wrong"):
        running.call(Kind.CUT, incarnation=1, arrays=[json_array({})])
    with pytest.raises(WireError, match="no table is called 'x'"):
        cut(running, least={"x": 1})
    body = {"token": "a", "target": str(tmp_path), "tables": {"x": {"shards_each": 1}}}
    with pytest.raises(WireError, match="no table is called 'x'"):
        running.call(Kind.SAVE, incarnation=1, arrays=[json_array(body)])
    with pytest.raises(WireError, match="the fingerprint of every table; t is missing"):
        commit(running, {})
    wrong = {"token": "a", "published": True, "fingerprints": {"t": "x", "u": "x"}}
    with pytest.raises(WireError, match="16 hexadecimal digits"):
        running.call(Kind.COMMIT, incarnation=1, arrays=[json_array(wrong)])
