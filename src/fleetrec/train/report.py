"""One self-contained page about a run, made from its metrics.jsonl."""

import json
from collections.abc import Sequence
from typing import Any

from fleetrec.core.storage import write_bytes
from fleetrec.train.online_report import online_sections
from fleetrec.train.records import read_records
from fleetrec.train.report_page import (
    Point,
    Series,
    bullets,
    chart,
    charts,
    folded,
    number,
    page,
    section,
    table,
)
from fleetrec.train.run_folder import RunFolder

Record = dict[str, Any]


def write_report(folder: RunFolder) -> None:
    """Write report.html; a run that has measured nothing still gets its configuration."""
    write_bytes(folder.report, report_page(folder))


def report_page(folder: RunFolder) -> bytes:
    """Return the page about a run that has ended, or that is still running."""
    options = folder.options() or {}
    records = list(read_records(folder.metrics))
    is_online = options.get("online") is not None or any("event_time" in r for r in records)
    sections = online_sections(records) if is_online else _epoch_sections(records)
    title = " ".join(filter(None, [f"{folder.path.name}:", options.get("kind", "")]))
    return page(title.removesuffix(":"), [*sections, _configuration(options)])


def _epoch_sections(records: Sequence[Record]) -> list[str]:
    intervals = [r for r in records if r["event"] == "interval" and r["kind"] == "train"]
    passes = [r for r in records if r["event"] == "pass"]
    saved = [r for r in records if r["event"] == "saved"]
    drawn = [_curve(name, intervals) for name in ("LOSS", "AUC", "auc")]
    return [
        section("Passes", _passes_table(passes)) or "<p>No pass over the data was finished.</p>",
        section("Training", charts(drawn), note="Of the batches since the last point, by step."),
        section(
            "Saved", bullets([f"{r['what']} of epoch {r['epoch']}: {r['path']}" for r in saved])
        ),
    ]


def _configuration(options: Record) -> str:
    if not options:
        return ""
    return folded("Configuration", json.dumps(options, indent=1, ensure_ascii=False))


def _passes_table(passes: Sequence[Record]) -> str:
    names = list(dict.fromkeys(name for record in passes for name in record["metrics"]))
    rows = [
        [
            f"{record['epoch']} {record['phase']}",
            *(_exact(record["metrics"].get(name)) for name in names),
            f"{record['samples_per_s']:,.0f}",
        ]
        for record in passes
    ]
    return table(["epoch", *names, "samples/s"], rows)


def _curve(name: str, intervals: Sequence[Record]) -> str:
    """Draw one metric over the steps."""
    points = [
        Point(x=record["step"], y=record["metrics"].get(name), label=f"step {record['step']}")
        for record in intervals
    ]
    return chart(name, [Series(name=name, points=points)], x_text=lambda x: f"step {number(x)}")


def _exact(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"
