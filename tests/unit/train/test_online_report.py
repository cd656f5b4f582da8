"""The report of an online run, from its records."""

import html
import re

from fleetrec.train.alarms import Alarm
from fleetrec.train.observers import JsonObserver, duration
from fleetrec.train.online_passes import online_passes
from fleetrec.train.online_report import model_ages, online_sections
from fleetrec.train.records import read_records
from unit.train.making_passes import make_evaluated, make_table, make_trained


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def write(tmp_path, play):
    """Let ``play`` report to an observer with a clock; return the records."""
    clock = Clock()
    path = tmp_path / "metrics.jsonl"
    play(JsonObserver(path, now=clock), clock)
    return list(read_records(path))


def rows(text, title):
    """Return the cells of the table of a section."""
    body = text.partition(f"<h2>{title}</h2>")[2].partition("<h2>")[0]
    found = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall("<tr>.*?</tr>", body)]
    return [[html.unescape(cell) for cell in row] for row in found if row]


def passes(observer, clock):
    for index, created in enumerate((10, 15, 15)):
        observer.pass_done(make_evaluated(index, AUC=0.6 + index / 10))
        clock.now += 60
        table = make_table(created - index, created=created, evicted=index)
        observer.pass_done(
            make_trained(index, delay_s=30.0, arrived_at=clock.now - 30, tables={"t": table})
        )


def test_days_and_passes_have_their_metrics_and_sizes(tmp_path):
    text = "".join(online_sections(write(tmp_path, passes)))
    (day,) = rows(text, "Days")
    assert day == ["20261118", "3", "300", "0.7", "0.7", "0.8", "0.5", "13", "15", "2"]
    last = rows(text, "Last passes")
    assert last[0] == (
        ["20261118/0010", "100", "0.8", "0.7", "0.8", "0.5", "13", "0", "1", duration(30)]
    )
    assert [row[0] for row in last] == [f"20261118/{time}" for time in ("0010", "0005", "0000")]
    assert "3 passes trained, 300 samples, from 20261118/0000 to 20261118/0010" in text


def test_charts_show_every_pass(tmp_path):
    text = "".join(online_sections(write(tmp_path, passes)))
    titles = re.findall(r"<figcaption>([^<]*)", text)
    assert titles == [
        "AUC and GAUC",
        "COPC",
        "Log loss",
        "Rows",
        "Rows created and evicted by pass",
        "Delay of a pass",
    ]
    for shown in ("0000 AUC: 0.6", "0005 AUC: 0.7", "0010 GAUC: 0.7", "0005 t created: 5"):
        assert f"<title>20261118/{shown}</title>" in text


def test_the_age_of_a_model_rises_until_the_next_one(tmp_path):
    def play(observer, clock):
        for index, now in enumerate((1000.0, 1300.0)):
            clock.now = now
            observer.pass_done(make_trained(index, arrived_at=now - 30, delay_s=30.0))
            clock.now = now + 5
            observer.saved("checkpoint", f"model/{index}", epoch=index)
            clock.now = now + 10
            observer.saved("serving model", f"model/delta-{index}", epoch=index)

    records = write(tmp_path, play)
    what, points = model_ages(online_passes(records), records)
    assert what == "serving model"
    ages = [(point.x, point.y) for point in points]
    assert ages == [(1010.0, 40.0), (1310.0, 340.0), (1310.0, 40.0)]
    assert "Age of the newest serving model" in "".join(online_sections(records))
    only_checkpoints = [r for r in records if r.get("what") != "serving model"]
    what, points = model_ages(online_passes(records), only_checkpoints)
    assert (what, points[0].y) == ("checkpoint", 35.0)


def test_alarms_and_what_was_saved_are_listed(tmp_path):
    def play(observer, clock):
        passes(observer, clock)
        alarm = Alarm(name="copc", message="COPC is <2>", pass_name="p", time=1795003500.0)
        observer.alarm(alarm)
        observer.saved("checkpoint", "model/a", epoch=2)
        observer.saved("checkpoint", "model/a", epoch=2)  # after a kill

    text = "".join(online_sections(write(tmp_path, play)))
    assert "<li>Nov 18 12:05 copc: COPC is &lt;2&gt;</li>" in text
    assert text.count("checkpoint after pass 20261118/0010: model/a") == 1


def test_phases_and_tasks_are_named(tmp_path):
    def play(observer, _):
        for index in range(2):
            observer.pass_done(make_evaluated(index, phase="a", AUC_buy=0.5))
            observer.pass_done(make_evaluated(index, phase="b"))

    text = "".join(online_sections(write(tmp_path, play)))
    assert [row[0] for row in rows(text, "Days")] == ["20261118 a", "20261118 b"]
    assert "AUC_buy a</span>" in text


def test_a_run_without_a_pass_says_so():
    assert online_sections([]) == ["<p>No pass over the data was finished.</p>"]
