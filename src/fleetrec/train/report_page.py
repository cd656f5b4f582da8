"""Parts of a report: one HTML page with tables and charts, without scripts or other files."""

import dataclasses
import datetime
import html
import math
from collections.abc import Callable, Sequence

WIDTH, HEIGHT = 1000.0, 200.0  # of a chart, in its own units: it is stretched to the page
MAX_POINTS = 1500  # of a line; of more points, the extremes of every stretch are drawn
MAX_DOTS = 200  # a line of more points has no dots
NUM_MEANS = 100  # points of the line of means over a line of many points
NUM_COLORS = 6

STYLE = """
:root{color-scheme:light dark;--text:#1f2328;--soft:#59636e;--line:#d1d9e0;--back:#fff;
--panel:#f6f8fa;--c0:#0969da;--c1:#bc4c00;--c2:#1a7f37;--c3:#8250df;--c4:#bf3989;--c5:#9a6700}
@media(prefers-color-scheme:dark){:root{--text:#e6edf3;--soft:#9198a1;--line:#3d444d;--back:#0d1117;
--panel:#161b22;--c0:#4493f8;--c1:#f0883e;--c2:#3fb950;--c3:#ab7df8;--c4:#f778ba;--c5:#d29922}}
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:0 auto;padding:1.5rem 1rem 4rem;
color:var(--text);background:var(--back);overflow-wrap:anywhere}
h1{font-size:1.5rem;margin:0 0 .5rem}h2{font-size:1.15rem;margin:2rem 0 .5rem}p{margin:.4rem 0}
.soft,figcaption small,.axis{color:var(--soft)}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:14px}
td,th{padding:.25rem .5rem;text-align:right;border-bottom:1px solid var(--line);vertical-align:top;
overflow-wrap:normal}
th{color:var(--soft);font-weight:600}td:first-child,th:first-child{text-align:left}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:1rem}
figure{margin:0;padding:.75rem;background:var(--panel);border-radius:6px;min-width:0}
figcaption{font-weight:600;margin-bottom:.4rem}figcaption small{font-weight:400;display:block}
.plot{display:grid;grid-template-columns:auto 1fr;gap:.15rem .5rem}
.axis{font-size:12px;display:flex;justify-content:space-between;line-height:1}
.axis.y{flex-direction:column;text-align:right}.axis.x{grid-column:2;margin-top:.3rem}
svg{width:100%;height:160px;display:block;overflow:visible}
svg *{vector-effect:non-scaling-stroke;fill:none}.grid{stroke:var(--line);stroke-width:1}
.line{stroke-width:1.5}.faint{stroke-width:1;opacity:.35}.dot{stroke-width:5;stroke-linecap:round}
.legend{font-size:12px;margin-top:.4rem}.legend span{margin-right:1rem;white-space:nowrap}
.legend i{display:inline-block;width:1rem;height:3px;vertical-align:middle;margin-right:.3rem}
pre{background:var(--panel);padding:1rem;border-radius:6px;overflow:auto;font-size:13px}
summary{cursor:pointer;font-weight:600}ul{padding-left:1.2rem}
@media(max-width:44rem){thead{display:none}tr{display:grid;grid-template-columns:1fr 1fr;gap:0 1rem;
padding:.5rem 0;border-bottom:1px solid var(--line)}td{border:0;padding:.1rem 0;display:flex;
justify-content:space-between;gap:.5rem}td:first-child{grid-column:1/-1;font-weight:600}
td:not(:first-child)::before{content:attr(data-label);color:var(--soft);font-size:12px}}
"""
COLORS = "".join(
    f".s{i}{{stroke:var(--c{i})}}.legend .s{i}{{background:var(--c{i})}}" for i in range(NUM_COLORS)
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Point:
    """A value at a place on the x axis; None where it is not defined. ``label`` names the place."""

    x: float
    y: float | None
    label: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Series:
    """A line of a chart; its points are in the order of x."""

    name: str
    points: Sequence[Point]


def page(title: str, sections: Sequence[str]) -> bytes:
    """Return the page."""
    name = html.escape(title)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{name}</title><style>{STYLE}{COLORS}</style></head>"
        f"<body><h1>{name}</h1>{''.join(sections)}</body></html>\n"
    ).encode()


def section(title: str, content: str, *, note: str = "") -> str:
    """Return a section; empty if it has no content."""
    if not content:
        return ""
    below = f'<p class="soft">{html.escape(note)}</p>' if note else ""
    return f"<h2>{html.escape(title)}</h2>{below}{content}"


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; on a narrow screen every row is a small table of its own."""
    if not rows:
        return ""
    head = "".join(f"<th>{_breakable(name)}</th>" for name in names)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td data-label="{html.escape(name)}">{html.escape(cell)}</td>'
            for name, cell in zip(names, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def bullets(items: Sequence[str]) -> str:
    """Return a list of texts."""
    return f"<ul>{''.join(f'<li>{html.escape(item)}</li>' for item in items)}</ul>" if items else ""


def folded(title: str, text: str) -> str:
    """Return a block of text that is shown on request."""
    shown = html.escape(title)
    return f"<h2></h2><details><summary>{shown}</summary><pre>{html.escape(text)}</pre></details>"


def charts(drawn: Sequence[str]) -> str:
    """Return charts side by side, as far as there is place."""
    kept = [one for one in drawn if one]
    return f'<div class="charts">{"".join(kept)}</div>' if kept else ""


def chart(
    title: str,
    series: Sequence[Series],
    *,
    x_text: Callable[[float], str],
    y_text: Callable[[float], str] | None = None,
    note: str = "",
    has_means: bool = False,
) -> str:
    """Draw lines over a common x axis; empty if there are fewer than two points.

    With ``has_means`` a line of many points is faint, below the line of their means.
    """
    shown = [one for one in series if any(_is_known(point) for point in one.points)]
    known = [point for one in shown for point in one.points if _is_known(point)]
    if len(known) < 2:
        return ""
    x_span = _span([point.x for point in known])
    y_span = _span([point.y for point in known if point.y is not None])
    text = y_text or number
    place = _Place(x_span=x_span, y_span=y_span, text=text, has_means=has_means)
    lines = "".join(_line(one, index, place) for index, one in enumerate(shown))
    grid = "".join(
        f'<path class="grid" d="M0 {y:g}H{WIDTH:g}"/>' for y in (0.0, HEIGHT / 2, HEIGHT)
    )
    below = f"<small>{html.escape(note)}</small>" if note else ""
    y_labels = (y_span[1], sum(y_span) / 2, y_span[0])
    x_labels = (x_span[0], sum(x_span) / 2, x_span[1])
    return (
        f'<figure><figcaption>{html.escape(title)}{below}</figcaption><div class="plot">'
        f'<div class="axis y">{_labels([text(y) for y in y_labels])}</div>'
        f'<svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" preserveAspectRatio="none" role="img" '
        f'aria-label="{html.escape(title)}">{grid}{lines}</svg>'
        f'<div class="axis x">{_labels([x_text(x) for x in x_labels])}</div></div>'
        f"{_legend(shown)}</figure>"
    )


def number(value: float | None) -> str:
    """Return a number in four digits; a dash if there is none."""
    if value is None or not math.isfinite(value):
        return "-"
    is_whole = float(value).is_integer() and abs(value) < 1e15
    return f"{int(value):,}" if is_whole and abs(value) >= 1000 else f"{value:.4g}"


def time_text(seconds: float) -> str:
    """Return a time in UTC."""
    return f"{_utc(seconds):%b %d %H:%M}"


def clock_text(seconds: float) -> str:
    """Return a time of day in UTC, with seconds."""
    return f"{_utc(seconds):%H:%M:%S}"


def _utc(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, tz=datetime.UTC)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Place:
    """The axes of a chart."""

    x_span: tuple[float, float]
    y_span: tuple[float, float]
    text: Callable[[float], str]
    has_means: bool

    def at(self, point: Point) -> str:
        assert point.y is not None
        x = (point.x - self.x_span[0]) / (self.x_span[1] - self.x_span[0]) * WIDTH
        y = HEIGHT - (point.y - self.y_span[0]) / (self.y_span[1] - self.y_span[0]) * HEIGHT
        return f"{x:.1f} {y:.1f}"

    def path(self, points: Sequence[Point]) -> str:
        """Return the line through some points, with gaps where it is not defined."""
        steps, is_gap = [], True
        for point in points:
            if _is_known(point):
                steps.append(f"{'M' if is_gap else 'L'}{self.at(point)}")
            is_gap = not _is_known(point)
        return "".join(steps)


def _line(series: Series, index: int, place: _Place) -> str:
    """Draw one line; with dots if there are few points, and else on request with means."""
    color = f"s{index % NUM_COLORS}"
    has_dots = len(series.points) <= MAX_DOTS
    is_faint = place.has_means and not has_dots
    kind = "faint" if is_faint else "line"
    drawn = [f'<path class="{kind} {color}" d="{place.path(thinned(series.points))}"/>']
    if is_faint:
        drawn.append(f'<path class="line {color}" d="{place.path(means(series.points))}"/>')
    for point in series.points if has_dots else ():
        if point.y is not None and _is_known(point):
            name = f"{point.label} {series.name}: {place.text(point.y)}".strip()
            drawn.append(
                f'<path class="dot {color}" d="M{place.at(point)}h0">'
                f"<title>{html.escape(name)}</title></path>"
            )
    return "".join(drawn)


def means(points: Sequence[Point], *, num_means: int = NUM_MEANS) -> list[Point]:
    """Return the means of stretches of equal numbers of points."""
    known = [(point.x, point.y) for point in points if point.y is not None and _is_known(point)]
    length = max(1, math.ceil(len(known) / num_means))
    stretches = [known[begin : begin + length] for begin in range(0, len(known), length)]
    return [
        Point(x=sum(x for x, _ in some) / len(some), y=sum(y for _, y in some) / len(some))
        for some in stretches
    ]


def thinned(points: Sequence[Point], *, max_points: int = MAX_POINTS) -> Sequence[Point]:
    """Return at most about ``max_points``: of every stretch the lowest and the highest."""
    if len(points) <= max_points:
        return points
    stretch = math.ceil(2 * len(points) / max_points)
    kept: list[Point] = []
    for begin in range(0, len(points), stretch):
        known = [(p.y, p.x, p) for p in points[begin : begin + stretch] if p.y is not None]
        if known:
            ends = {id(one[2]): one[2] for one in (min(known, key=_by_y), max(known, key=_by_y))}
            kept += sorted(ends.values(), key=lambda point: point.x)
    return kept


def _by_y(item: tuple[float, float, Point]) -> float:
    return item[0]


def _legend(series: Sequence[Series]) -> str:
    if len(series) < 2:
        return ""
    names = "".join(
        f'<span><i class="s{index % NUM_COLORS}"></i>{html.escape(one.name)}</span>'
        for index, one in enumerate(series)
    )
    return f'<div class="legend">{names}</div>'


def _labels(texts: Sequence[str]) -> str:
    return "".join(f"<span>{html.escape(text)}</span>" for text in texts)


def _is_known(point: Point) -> bool:
    return point.y is not None and math.isfinite(point.y)


def _span(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    pad = abs(low) / 10 or 1.0  # of a line that is level
    return (low, high) if high > low else (low - pad, high + pad)


def _breakable(name: str) -> str:
    """Allow a line break after every underscore of a name."""
    return "_<wbr>".join(html.escape(part) for part in name.split("_"))
