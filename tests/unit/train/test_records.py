"""Records of metrics.jsonl, some of them cut off."""

import json

from fleetrec.train.observers import JsonObserver
from fleetrec.train.records import read_records
from unit.train.making_passes import make_evaluated, make_trained


def test_a_line_that_is_cut_off_is_skipped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    JsonObserver(path).pass_done(make_trained(0))
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:50])
    assert [record["epoch"] for record in read_records(path)] == ["20261118/0000"]
    path.write_bytes(whole + b'{"event": "pass", "epoch": "\xc3')  # half a character
    assert len(list(read_records(path))) == 1


def test_a_resumed_run_writes_after_a_line_that_is_cut_off(tmp_path):
    path = tmp_path / "metrics.jsonl"
    JsonObserver(path).pass_done(make_trained(0))
    with path.open("ab") as stream:
        stream.write(b'{"event": "pass", "kind"')
    JsonObserver(path).pass_done(make_trained(1))
    assert [record["epoch"] for record in read_records(path)] == ["20261118/0000", "20261118/0005"]


def test_a_file_that_is_not_there_has_no_records(tmp_path):
    assert list(read_records(tmp_path / "metrics.jsonl")) == []


def test_records_of_online_runs_have_times_and_ages(tmp_path):
    path = tmp_path / "metrics.jsonl"
    observer = JsonObserver(path, now=lambda: 1100.0)
    observer.pass_done(make_evaluated(1))
    observer.saved("checkpoint", "model/0", epoch=0)
    observer.pass_done(make_trained(1, arrived_at=1000.0, delay_s=95.0))
    observer.saved("serving model", "model/1", epoch=1)
    evaluated, earlier, trained, served = read_records(path)
    times = {"index": 1, "event_time": make_trained(1).event_time, "time": 1100.0}
    assert evaluated.items() >= times.items()
    assert "delay_s" not in evaluated
    assert trained.items() >= {**times, "delay_s": 95.0}.items()
    assert earlier == {
        "event": "saved",
        "what": "checkpoint",
        "path": "model/0",
        "epoch": 0,
        "time": 1100.0,
    }
    assert served.items() >= {"pass": "20261118/0005", "age_s": 100.0, "time": 1100.0}.items()
    assert served["event_time"] == times["event_time"]


def test_records_of_other_runs_stay_as_they_are(tmp_path):
    path = tmp_path / "metrics.jsonl"
    JsonObserver(path).saved("checkpoint", "c/0", epoch=0)
    record = {"event": "saved", "what": "checkpoint", "path": "c/0", "epoch": 0}
    assert json.loads(path.read_text()) == record
