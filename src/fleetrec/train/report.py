"""One self-contained page about a run, made from its metrics.jsonl."""

import html
import json
from collections.abc import Iterable, Sequence
from typing import Any

from fleetrec.config.job import RunOptions
from fleetrec.core.storage import write_bytes
from fleetrec.train.run_folder import RunFolder

WIDTH, HEIGHT, MARGIN = 640, 220, 48

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .8rem;text-align:right;
border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}
pre{background:#f6f6f6;padding:1rem;overflow:auto}svg{background:#fafafa}text{font-size:11px;fill:#555}
polyline{fill:none;stroke:#06c;stroke-width:1.5}line{stroke:#ccc}
"""


def write_report(folder: RunFolder, run: RunOptions) -> None:
    """Write report.html; a run that has measured nothing still gets its configuration."""
    records = _records(folder)
    intervals = [r for r in records if r["event"] == "interval"]
    passes = [r for r in records if r["event"] == "pass"]
    saved = [r for r in records if r["event"] == "saved"]
    title = html.escape(f"{folder.path.name}: {run.kind}")
    sections = [
        _passes_table(passes),
        *(_curve(name, intervals) for name in ("LOSS", "AUC", "auc")),
        _list("Left behind", [f"{r['what']} of epoch {r['epoch']}: {r['path']}" for r in saved]),
        _block("Configuration", json.dumps(run.to_plain(), indent=1, ensure_ascii=False)),
    ]
    page = (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title>"
        f"<style>{STYLE}</style><h1>{title}</h1>{''.join(sections)}</html>\n"
    )
    write_bytes(folder.report, page.encode())


def _records(folder: RunFolder) -> list[dict[str, Any]]:
    if not folder.metrics.is_file():
        return []
    with folder.metrics.open(encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def _passes_table(passes: Sequence[dict[str, Any]]) -> str:
    if not passes:
        return "<p>No pass over the data was finished.</p>"
    names = list(dict.fromkeys(name for record in passes for name in record["metrics"]))
    head = "".join(f"<th>{html.escape(name)}" for name in ("epoch", *names, "samples/s"))
    rows = (
        [
            f"{record['epoch']} {record['phase']}",
            *(_number(record["metrics"].get(name)) for name in names),
            f"{record['samples_per_s']:,.0f}",
        ]
        for record in passes
    )
    body = "".join("<tr>" + "".join(f"<td>{html.escape(c)}" for c in row) for row in rows)
    return f"<h2>Passes</h2><table><tr>{head}{body}</table>"


def _curve(name: str, intervals: Sequence[dict[str, Any]]) -> str:
    """Draw one metric over the steps."""
    points = [
        (float(record["step"]), float(record["metrics"][name]))
        for record in intervals
        if record["metrics"].get(name) is not None
    ]
    if len(points) < 2:
        return ""
    (x0, x1), (y0, y1) = (_span(axis) for axis in zip(*points, strict=True))
    place = " ".join(
        f"{MARGIN + (x - x0) / (x1 - x0) * (WIDTH - MARGIN - 8):.1f},"
        f"{HEIGHT - 24 - (y - y0) / (y1 - y0) * (HEIGHT - 40):.1f}"
        for x, y in points
    )
    return (
        f"<h2>{html.escape(name)}</h2><svg viewBox='0 0 {WIDTH} {HEIGHT}' width={WIDTH}>"
        f"<line x1={MARGIN} y1={HEIGHT - 24} x2={WIDTH - 8} y2={HEIGHT - 24} />"
        f"<text x=4 y=20>{y1:.4g}</text><text x=4 y={HEIGHT - 24}>{y0:.4g}</text>"
        f"<text x={MARGIN} y={HEIGHT - 8}>step {x0:.0f}</text>"
        f"<text x={WIDTH - 90} y={HEIGHT - 8}>step {x1:.0f}</text>"
        f"<polyline points='{place}' /></svg>"
    )


def _span(values: Iterable[float]) -> tuple[float, float]:
    known = list(values)
    low, high = min(known), max(known)
    return (low, high) if high > low else (low, low + 1)


def _list(title: str, items: Sequence[str]) -> str:
    if not items:
        return ""
    return f"<h2>{title}</h2><ul>{''.join(f'<li>{html.escape(item)}' for item in items)}</ul>"


def _block(title: str, text: str) -> str:
    return f"<h2>{title}</h2><pre>{html.escape(text)}</pre>"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"
