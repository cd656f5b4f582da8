"""The model of online learning, as its own config trains it."""

import json
from pathlib import Path

import numpy as np
import pytest

from fleetrec.cli.online import online_command
from fleetrec.cli.run import RunRequest
from fleetrec.export.follower import Follower
from making import columns_of, tables_of

NAME = "online_learning/ctr_dnn"


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_it_learns_day_by_day_and_its_rows_come_and_go():
    online_command(
        RunRequest(
            model=NAME,
            overrides=[
                "mode=online_train",
                "table_parameters.SparseFeatFactors.eviction.max_rows=150",
            ],
        )
    )
    (path,) = Path("logs").rglob("metrics.jsonl")
    records = [json.loads(line) for line in path.read_text().splitlines()]
    passes = [record for record in records if record["event"] == "pass"]
    evaluated = [record["metrics"]["AUC"] for record in passes if record["kind"] == "infer"]
    assert len(evaluated) == 12  # six folders of each of two days
    assert np.mean(evaluated[-4:]) > np.mean(evaluated[:4]) + 0.05
    tables = [r["tables"]["SparseFeatFactors"] for r in passes if r["kind"] == "train"]
    low_scores = [stats["evicted_score"] for stats in tables]
    assert {*low_scores[:5]} == {0}  # until the day ends
    assert low_scores[5] > 0
    assert tables[0]["evicted_capacity"] < tables[4]["evicted_capacity"]
    assert all(stats["rows"] <= 150 for stats in tables)
    ((_, _, stored),) = tables_of(Path("online_ctr_dnn/20261118/0"))
    columns = columns_of(stored)
    assert stored.record.evicted == tables[-1]["evicted"]
    assert columns["ids"].view(np.uint64).max() > 2**63
    with Follower("online_ctr_dnn") as follower:
        ids = columns["ids"].view(np.uint64)[:1].tolist()
        feeds = {str(slot): [ids] for slot in range(1, 9)}
        feeds["dense_feature"] = np.zeros((1, 4), np.float32)
        assert 0 < follower.predict(feeds)["predict"][0] < 1
