"""Online runs that are watched: alarms, their command, the metrics page and the report."""

import html
import json
import re
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

from fleetrec.cli.online import online_command
from fleetrec.cli.report import report
from fleetrec.cli.run import RunRequest
from fleetrec.core.env import FAULTS, environment_with
from fleetrec.core.errors import ConfigError, DataError
from fleetrec.train.records import read_records
from fleetrec.train.report_page import number
from making_online import DAYS, NUM_SAMPLES, make_days, make_split, write_online_job

DEADLINE_S = 120.0
HOOK = "import os, sys; open('alarms.jsonl', 'a').write(sys.stdin.read())"


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run_folder(tmp_path):
    return tmp_path / "logs" / f"{tmp_path.name}.online"


def online(config, *overrides):
    online_command(RunRequest(model=str(config), overrides=overrides))


def start(config, tmp_path, **variables):
    return subprocess.Popen(
        [sys.executable, "-m", "fleetrec.online", "-m", str(config)],
        cwd=tmp_path,
        env=environment_with(variables, unless_set={"OMP_NUM_THREADS": "1"}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_until(condition, process):
    """Return what ``condition`` returns, as soon as that is true."""
    deadline = time.monotonic() + DEADLINE_S
    while not (found := condition()):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, f"{condition.__name__} never came"
        time.sleep(0.01)
    return found


def shown_metrics(address):
    with urllib.request.urlopen(address, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    pairs = (line.rpartition(" ")[::2] for line in lines if line[0] != "#")
    return {name.removeprefix("fleetrec_"): float(value) for name, value in pairs}


@pytest.mark.multiprocess
def test_a_run_that_waits_for_data_raises_an_alarm_and_shows_its_metrics(tmp_path):
    alarms = {"no_data_minutes": 0.01, "command": [sys.executable, "-c", HOOK]}
    config = write_online_job(
        tmp_path, tmp_path / "data", end_day=DAYS[0], alarms=alarms, metrics_port=0
    )
    make_split(tmp_path / "data" / DAYS[0] / "0000", seed=0)
    folder = run_folder(tmp_path)
    log, metrics = folder / "run.log", folder / "metrics.jsonl"
    process = start(config, tmp_path)

    def address():
        return re.search(
            r"http://127\.0\.0\.1:\d+/metrics", log.read_text() if log.exists() else ""
        )

    def alarm_active():
        return shown_metrics(page).get('alarm_active{alarm="no_data"}') == 1.0

    def saved():
        return [r for r in read_records(metrics) if r["event"] == "saved"]

    def hook_called():
        return (tmp_path / "alarms.jsonl").exists() and (tmp_path / "alarms.jsonl").read_text()

    with process:
        page = wait_until(address, process)[0]
        wait_until(alarm_active, process)
        called = json.loads(wait_until(hook_called, process))
        wait_until(saved, process)  # while the run waits, not with the next pass
        shown = shown_metrics(page)
        report(folder)
        running = (folder / "report.html").read_text()
        for index, name in enumerate(("0800", "1600"), start=1):
            make_split(tmp_path / "data" / DAYS[0] / name, seed=index)
        output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, output
    assert called["name"] == "no_data"
    assert called["pass"] == f"{DAYS[0]}/0800"
    assert shown["train_samples_total"] == NUM_SAMPLES
    assert (shown["pass_index"], shown["train_passes_total"]) == (0.0, 1.0)
    assert shown["waiting_seconds"] >= 0.6
    assert shown["data_age_seconds"] > shown["pass_delay_seconds"] > 0
    assert shown['alarms_total{alarm="no_data"}'] == 1.0
    trained = next(r for r in read_records(metrics) if r["event"] == "pass" and "delay_s" in r)
    assert shown['train_loss{phase="learn"}'] == trained["metrics"]["LOSS"]
    rows = trained["tables"]["SparseFeatFactors"]["rows"]
    assert shown['table_rows{table="SparseFeatFactors"}'] == rows
    assert "1 passes trained" in running
    assert "no data of pass" in running
    assert f"ALARM no_data: no data of pass {DAYS[0]}/0800 for" in log.read_text()
    assert "ALARM no_data is over: pass" in log.read_text()


def cells(page, title):
    body = page.partition(f"<h2>{title}</h2>")[2].partition("<h2>")[0]
    found = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall("<tr>.*?</tr>", body)]
    return [[html.unescape(cell) for cell in row] for row in found if row]


def test_the_report_of_an_online_run_has_what_metrics_jsonl_has(tmp_path):
    config = write_online_job(tmp_path, make_days(tmp_path / "data"))
    online(config, "runner.online.gauc_slot=2", "hyper_parameters.eviction={max_rows: 300}")
    folder = run_folder(tmp_path)
    records = list(read_records(folder / "metrics.jsonl"))
    of_passes = [r for r in records if r["event"] == "pass"]
    evaluated = {r["epoch"]: r["metrics"] for r in of_passes if r["kind"] == "infer"}
    trained = {r["epoch"]: r for r in of_passes if r["kind"] == "train"}
    page = (folder / "report.html").read_text()
    rows = cells(page, "Last passes")
    assert [row[0] for row in rows] == list(trained)[::-1]
    created = evicted = 0
    for row in rows[::-1]:
        metrics, table = evaluated[row[0]], trained[row[0]]["tables"]["SparseFeatFactors"]
        names = ("SAMPLES", "AUC", "GAUC", "COPC", "LOGLOSS")
        assert row[1:6] == [number(metrics[name]) for name in names]
        changes = (table["created"] - created, table["evicted"] - evicted)
        assert row[6:9] == [str(table["rows"]), *map(str, changes)]
        created, evicted = table["created"], table["evicted"]
        assert f"<title>{row[0]} AUC: {row[2]}</title>" in page
    assert evicted > 0
    days = cells(page, "Days")
    assert [row[:3] for row in days] == [[day, "3", str(3 * NUM_SAMPLES)] for day in DAYS]
    logloss = [metrics["LOGLOSS"] for name, metrics in evaluated.items() if name < DAYS[1]]
    assert days[0][6] == number(sum(logloss) / 3)
    assert days[-1][7] == rows[0][6]
    published = [r for r in records if r["event"] == "saved"]
    assert all(r["age_s"] >= 0 and r["pass"] in trained for r in published)
    assert f"serving model after pass {DAYS[-1]}/1600: {published[-1]['path']}" in page


@pytest.mark.multiprocess
def test_a_killed_run_continues_its_alarms_and_counts_repeated_passes_once(tmp_path):
    alarms = {"copc": [5, 6], "command": [sys.executable, "-c", HOOK]}
    config = write_online_job(
        tmp_path, make_days(tmp_path / "data"), alarms=alarms, checkpoint_per_pass=10
    )
    faults = tmp_path / "faults" / "process.0"
    faults.mkdir(parents=True)
    (faults / "evicted").write_text("3 kill")  # within the first day, nothing is saved before
    with start(config, tmp_path, **{FAULTS: str(faults.parent)}) as process:
        output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == -signal.SIGKILL, output
    folder = run_folder(tmp_path)
    with (folder / "metrics.jsonl").open("a") as stream:
        stream.write('{"event": "pass", "kin')
    online(config)
    log = (folder / "run.log").read_text()
    assert log.count("ALARM copc:") == 1
    evaluated = [
        r["epoch"] for r in read_records(folder / "metrics.jsonl") if r.get("kind") == "infer"
    ]
    assert len(evaluated) > len(set(evaluated)) == 6
    page = (folder / "report.html").read_text()
    assert [row[0] for row in cells(page, "Last passes")] == sorted(set(evaluated))[::-1]
    assert [row[1:3] for row in cells(page, "Days")] == [["3", str(3 * NUM_SAMPLES)]] * 2


@pytest.mark.multiprocess
@pytest.mark.parametrize(
    "keys", [("worker_num=2", "server_num=1"), ("worker_num=2", "fleet_mode=collective")]
)
def test_the_chief_of_several_processes_watches_the_run(tmp_path, keys):
    make_days(tmp_path / "data", DAYS[:1])
    alarms = {"copc": [5, 6], "command": [sys.executable, "-c", HOOK]}
    config = write_online_job(
        tmp_path, tmp_path / "data", end_day=DAYS[0], alarms=alarms, metrics_port=0
    )
    online(config, *(f"runner.online.{key}" for key in keys))
    calls = (tmp_path / "alarms.jsonl").read_text().splitlines()
    assert [json.loads(line)["name"] for line in calls] == ["copc"]
    log = (run_folder(tmp_path) / "run.log").read_text()
    assert log.count("ALARM copc: COPC is") == 1
    assert f"pass {DAYS[0]}/1600 trained: {NUM_SAMPLES} samples" in log
    assert (run_folder(tmp_path) / "report.html").read_text().count("<figure>") >= 5
    logs = {path.name: path.read_text() for path in (tmp_path / "logs").glob("*.*[0-9]")}
    serving = [name for name, text in logs.items() if "metrics for Prometheus: http" in text]
    assert len(logs) >= 2
    assert len(serving) == 1


def test_the_folder_of_no_run_has_no_report(tmp_path):
    with pytest.raises(DataError, match=r"expected the folder of a run with metrics\.jsonl"):
        report(tmp_path)


def test_a_port_that_cannot_be_used_ends_the_run_before_it_begins(tmp_path):
    make_days(tmp_path / "data", DAYS[:1])
    config = write_online_job(
        tmp_path, tmp_path / "data", metrics_port=0, metrics_host="203.0.113.1"
    )
    with pytest.raises(ConfigError, match=r"runner online: metrics_port: cannot listen on 203"):
        online(config)
    assert not (tmp_path / "logs").exists()
