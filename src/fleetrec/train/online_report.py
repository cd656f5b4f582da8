"""The report of an online run: quality, size of tables and delays over event time and by day."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fleetrec.train.observers import duration
from fleetrec.train.online_metrics import EVALUATED
from fleetrec.train.online_passes import (
    Day,
    OnlinePass,
    metric_keys,
    online_passes,
    passes_by_day,
)
from fleetrec.train.report_page import (
    Point,
    Series,
    bullets,
    chart,
    charts,
    clock_text,
    number,
    section,
    table,
    time_text,
)

Record = Mapping[str, Any]

NUM_SHOWN = 50  # passes in the table of the last ones
NUM_SAVED = 10
CHECKPOINT = "checkpoint"
SHORT_S = 3600  # a chart of less time shows seconds


def online_sections(records: Sequence[Record]) -> list[str]:
    """Return the sections of the page, from the records of metrics.jsonl."""
    passes = online_passes(records)
    if not passes:
        return ["<p>No pass over the data was finished.</p>"]
    phases = list(dict.fromkeys(one.phase for one in passes))
    return [
        _summary(passes, records),
        section("Alarms", _alarms(records)),
        section(
            "Quality",
            _quality(passes, phases),
            note="Every pass is evaluated with the model that was not yet trained on it. Times are "
            "event time (UTC).",
        ),
        section(
            "Days",
            _days_table(passes_by_day(passes), phases),
            note="AUC and GAUC of a day are the means over its passes, weighted by samples.",
        ),
        section("Tables", _tables(passes, phases)),
        section("Delays", _delays(passes, phases, records)),
        section("Last passes", _passes_table(passes, phases)),
        section("Saved", bullets(_saved(records))),
    ]


def _summary(passes: Sequence[OnlinePass], records: Sequence[Record]) -> str:
    trained = [one for one in passes if one.trained is not None]
    times = [record["time"] for record in records if "time" in record]
    facts = [
        f"{len({one.index for one in trained})} passes trained",
        f"{number(sum(one.num_samples for one in trained))} samples",
        f"from {passes[0].name} to {passes[-1].name}",
    ]
    if times:
        took = duration(max(times) - min(times))
        facts.append(f"last event {time_text(max(times))} UTC, {took} after the first")
    return f"<p>{', '.join(facts)}.</p>".replace("<p>", '<p class="soft">')


def _quality(passes: Sequence[OnlinePass], phases: Sequence[str]) -> str:
    def lines(*names: str) -> list[Series]:
        found = []
        for phase in phases:
            own = [one for one in passes if one.phase == phase and one.evaluated is not None]
            for key in metric_keys(own, names):
                points = [
                    Point(x=one.event_time, y=(one.evaluated or {}).get(key), label=one.name)
                    for one in own
                ]
                found.append(Series(name=_named(key, phase, phases), points=points))
        return found

    return charts(
        [
            chart("AUC and GAUC", lines("AUC", "GAUC"), x_text=time_text, has_means=True),
            chart("COPC", lines("COPC"), x_text=time_text, note="1 is perfect", has_means=True),
            chart("Log loss", lines("LOGLOSS"), x_text=time_text, has_means=True),
        ]
    )


def _tables(passes: Sequence[OnlinePass], phases: Sequence[str]) -> str:
    names = dict.fromkeys((one.phase, table) for one in passes for table in one.tables)

    def lines(value: Callable[[OnlinePass, str], float | None], suffix: str) -> list[Series]:
        return [
            Series(
                name=" ".join(filter(None, [_named(table, phase, phases), suffix])),
                points=[
                    Point(x=one.event_time, y=value(one, table), label=one.name)
                    for one in passes
                    if one.phase == phase and table in one.tables
                ],
            )
            for phase, table in names
        ]

    changes = [
        *lines(lambda one, table: one.created.get(table), "created"),
        *lines(lambda one, table: one.evicted.get(table), "evicted"),
    ]
    waiting = lines(lambda one, table: one.tables[table].get("candidates"), "")
    has_waiting = any(point.y for one in waiting for point in one.points)
    return charts(
        [
            chart(
                "Rows",
                lines(lambda one, table: one.tables[table]["rows"], ""),
                x_text=time_text,
                y_text=_count,
            ),
            chart("Rows created and evicted by pass", changes, x_text=time_text, y_text=_count),
            chart("Ids that wait for a row", waiting, x_text=time_text, y_text=_count)
            if has_waiting
            else "",
        ]
    )


def _delays(passes: Sequence[OnlinePass], phases: Sequence[str], records: Sequence[Record]) -> str:
    delays = [
        Series(
            name=_named("delay", phase, phases),
            points=[
                Point(x=one.event_time, y=one.delay_s, label=one.name)
                for one in passes
                if one.phase == phase
            ],
        )
        for phase in phases
    ]
    what, ages = model_ages(passes, records)
    is_short = bool(ages) and ages[-1].x - ages[0].x < SHORT_S
    return charts(
        [
            chart(
                "Delay of a pass",
                delays,
                x_text=time_text,
                y_text=duration,
                note="from the arrival of its data to its end, by event time",
                has_means=True,
            ),
            chart(
                f"Age of the newest {what}",
                [Series(name="age", points=ages)],
                x_text=clock_text if is_short else time_text,
                y_text=duration,
                note="since the arrival of its newest data, by time of day (UTC)",
            ),
        ]
    )


def model_ages(passes: Sequence[OnlinePass], records: Sequence[Record]) -> tuple[str, list[Point]]:
    """Return the age of the newest published model over time, and what kind of model that is.

    The age rises until the next model is published. Without models for serving these are the
    checkpoints.
    """
    arrivals = {one.index: one.arrived_at for one in passes if one.arrived_at is not None}
    saved = [r for r in records if r["event"] == "saved" and "time" in r and r["epoch"] in arrivals]
    served = [record for record in saved if not record["what"].endswith(CHECKPOINT)]
    points: list[Point] = []
    newest: float | None = None  # arrival of the data of the newest model so far
    for record in served or saved:
        at = float(record["time"])
        arrived = arrivals[record["epoch"]]
        if newest is not None:
            points.append(Point(x=at, y=max(0.0, at - newest), label="before"))
        points.append(Point(x=at, y=max(0.0, at - arrived), label=str(record["path"])))
        newest = arrived
    return (str(served[-1]["what"]) if served else CHECKPOINT), points


def _days_table(days: Sequence[Day], phases: Sequence[str]) -> str:
    keys = metric_keys([one for day in days for one in day.passes], EVALUATED)
    has_tables = any(one.tables for day in days for one in day.passes)
    rows = []
    for day in days:
        metrics = day.metrics(keys)
        sizes = [day.num_rows, day.num_created, day.num_evicted] if has_tables else []
        rows.append(
            [
                _named(day.name, day.phase, phases),
                number(len(day.passes)),
                number(day.num_samples),
                *(number(metrics[key]) for key in keys),
                *map(_count, sizes),
            ]
        )
    sizes_names = ["rows", "created", "evicted"] if has_tables else []
    return table(["day", "passes", "samples", *keys, *sizes_names], rows)


def _passes_table(passes: Sequence[OnlinePass], phases: Sequence[str]) -> str:
    last = passes[-NUM_SHOWN:][::-1]
    keys = metric_keys(last, EVALUATED)
    has_tables = any(one.tables for one in last)
    rows = []
    for one in last:
        evaluated = one.evaluated or {}
        sizes = [
            sum(stats["rows"] for stats in one.tables.values()) if one.tables else None,
            sum(one.created.values()) if one.created else None,
            sum(one.evicted.values()) if one.evicted else None,
        ]
        rows.append(
            [
                _named(one.name, one.phase, phases),
                number(one.num_samples),
                *(number(evaluated.get(key)) for key in keys),
                *(map(_count, sizes) if has_tables else ()),
                "-" if one.delay_s is None else duration(one.delay_s),
            ]
        )
    sizes_names = ["rows", "created", "evicted"] if has_tables else []
    return table(["pass", "samples", *keys, *sizes_names, "delay"], rows)


def _alarms(records: Sequence[Record]) -> str:
    found = [record for record in records if record["event"] == "alarm"]
    return bullets(
        [
            f"{time_text(one['time'])} {one['name']}: "
            + (f"over since pass {one['pass']}" if one["is_over"] else str(one["message"]))
            for one in found[-NUM_SHOWN:]
        ]
    )


def _saved(records: Sequence[Record]) -> list[str]:
    """Return the last checkpoints and models, newest first; one that was replaced counts once."""
    newest = {(r["what"], r["path"]): r for r in records if r["event"] == "saved"}
    last = sorted(newest.values(), key=lambda record: record.get("time", 0.0))[-NUM_SAVED:]
    return [
        f"{record['what']}{' after pass ' + record['pass'] if 'pass' in record else ''}: "
        f"{record['path']}"
        for record in reversed(last)
    ]


def _named(name: str, phase: str, phases: Sequence[str]) -> str:
    return f"{name} {phase}" if len(phases) > 1 else name


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
