"""``fleetrec table``: inspect tables on disk, and import them."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import typer
from rich.bar import Bar
from rich.console import Console, RenderableType
from rich.table import Table

from fleetrec.checkpoint.table_view import (
    NUM_TOP,
    Summary,
    TableView,
    compare,
    open_tables,
    summarize,
    write_parquet,
)
from fleetrec.core.errors import CheckpointError, ConfigError

QUANTILES = (0.0, 0.1, 0.5, 0.9, 0.99, 1.0)
NUM_BINS = 10
BAR_WIDTH = 40

NO_CLICKS = (
    "no clicks were counted: a table counts them if admission is by score or ctr, eviction has "
    "min_score, or an entry names them"
)

Numbers = npt.NDArray[np.float32]


def show_stats(path: str) -> None:
    """Print the statistics of every table."""
    for name, table in open_tables(path).items():
        summary = summarize(table)
        typer.echo(
            f"{name}: {len(summary.norms)} rows of width {table.dim}, "
            f"{table.num_candidates()} ids waiting for admission, {table.num_bytes()} bytes in "
            f"files, {_history(table)}"
        )
        norms = summary.norms[np.isfinite(summary.norms)]
        if len(norms) < len(summary.norms):
            typer.echo(f"{len(summary.norms) - len(norms)} rows hold numbers that are not finite")
        has_clicks = _counts_clicks(table, summary)
        clicks = summary.clicks if has_clicks else None
        _print(_quantiles({"norm": norms, "show": summary.shows, "click": clicks}))
        if len(norms):
            _print(_histogram("norm", norms, _even_edges(norms)))
            _print(_histogram("show", summary.shows, _doubling_edges(summary.shows)))
        _print(_top(summary, has_clicks=has_clicks))
        if not has_clicks:
            typer.echo(NO_CLICKS)


def show_rows(path: str, ids: Sequence[int], *, table: str | None) -> None:
    """Print single rows."""
    found = _choose(path, table).get(one % 2**64 for one in ids)
    for wanted in ids:
        row = found.get(wanted % 2**64)
        if row is None:
            typer.echo(f"{wanted}: no row")
            continue
        vector = " ".join(f"{value:.6g}" for value in row["rows"])
        typer.echo(
            f"{wanted}: show {row['shows']:g} click {row['clicks']:g} "
            f"last_seen {row['last_seen']} [{vector}]"
        )


def dump(path: str, target: str, *, table: str | None) -> None:
    """Write the rows of a table to a Parquet file."""
    num_rows = write_parquet(_choose(path, table), target)
    typer.echo(f"{target}: {num_rows} rows")


def import_file(source: str, target: str, *, table: str) -> None:
    """Make a checkpoint of one table from a Parquet or Arrow file."""
    from fleetrec.checkpoint.import_rows import import_rows

    num_rows = import_rows(source, target, table=table)
    typer.echo(f"{target}: {num_rows} rows of table {table}")


def show_difference(before: str, after: str) -> None:
    """Print the differences of tables between two checkpoints."""
    for name, (old, new) in _pairs(before, after).items():
        found = compare(old, new)
        typer.echo(
            f"{name}: {len(found.only_before)} rows only in {before}, "
            f"{len(found.only_after)} only in {after}, {found.num_changed} of "
            f"{len(found.common)} common rows changed"
        )
        order = np.argsort(-found.distances)[:NUM_TOP]
        rows = [(str(found.common[i]), f"{found.distances[i]:.4g}") for i in order]
        _print(_table(["id", "moved by"], rows))


def _choose(path: str, table: str | None) -> TableView:
    tables = open_tables(path)
    if table is None and len(tables) == 1:
        return next(iter(tables.values()))
    known = ", ".join(tables) or "none"
    if table is None:
        raise ConfigError([f"{path}: name one table with --table: {known}"])
    if table not in tables:
        raise CheckpointError(f"{path}: no table {table!r}; known: {known}")
    return tables[table]


def _pairs(before: str, after: str) -> dict[str, tuple[TableView, TableView]]:
    """Match tables by name; where there is one on each side its name does not matter."""
    old, new = open_tables(before), open_tables(after)
    if len(old) == len(new) == 1:
        (name, one), other = *old.items(), next(iter(new.values()))
        return {name: (one, other)}
    if old.keys() != new.keys():
        raise CheckpointError(
            f"{before} holds the tables {', '.join(old)}; {after} holds {', '.join(new)}"
        )
    return {name: (table, new[name]) for name, table in old.items()}


def _history(table: TableView) -> str:
    if table.record is None:
        return "created and evicted rows unknown: not a checkpoint"
    record = table.record
    return (
        f"{record.created} rows made, {record.evicted} evicted: {record.evicted_unseen} unseen, "
        f"{record.evicted_score} low score, {record.evicted_capacity} beyond max_rows"
    )


def _counts_clicks(table: TableView, summary: Summary) -> bool:
    """Return whether the clicks of a table were counted.

    A checkpoint records the rule of admission, but not that of eviction: where admission does not
    need clicks, zeros everywhere are taken for "not counted".
    """
    kind = None if table.record is None else table.record.identity.admission["kind"]
    return kind in ("score", "ctr") or bool(summary.clicks.any())


def _quantiles(columns: Mapping[str, Numbers | None]) -> Table:
    """Return the table of quantiles, with ``-`` for a column that is not known."""
    heads = ["", *(f"{q:.0%}" for q in QUANTILES)]
    rows: list[tuple[str, ...]] = []
    for name, column in columns.items():
        if column is None:
            rows.append((name, *("-" for _ in QUANTILES)))
        elif len(column):
            rows.append((name, *(f"{value:.4g}" for value in np.quantile(column, QUANTILES))))
    return _table(heads, rows)


def _even_edges(values: Numbers) -> Numbers:
    low, high = float(values.min()), float(values.max())
    return np.linspace(low, high if high > low else low + 1, NUM_BINS + 1, dtype=np.float32)


def _doubling_edges(values: Numbers) -> Numbers:
    """Return 0, 1, 2, 4, ... up to beyond the largest: shows spread over many sizes."""
    powers = 2.0 ** np.arange(max(int(np.log2(max(float(values.max()), 1.0))) + 2, 2))
    return np.concatenate([[0.0], powers]).astype(np.float32)


def _histogram(name: str, values: Numbers, edges: Numbers) -> Table:
    counts, _ = np.histogram(values, edges)
    rows = [
        (f"{low:.4g}", str(count), Bar(int(counts.max()), 0, int(count), width=BAR_WIDTH))
        for low, count in zip(edges[:-1], counts, strict=True)
    ]
    return _table([f"{name} from", "rows", ""], rows)


def _top(summary: Summary, *, has_clicks: bool) -> Table:
    """Return the rows that were shown most."""
    columns = (summary.top_ids, summary.top_shows, summary.top_clicks, summary.top_norms)
    rows = [
        (str(one), f"{show:g}", f"{click:g}" if has_clicks else "-", f"{norm:.4g}")
        for one, show, click, norm in zip(*columns, strict=True)
    ]
    return _table(["id", "show", "click", "norm"], rows)


def _table(heads: Sequence[str], rows: Sequence[Sequence[RenderableType]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for head in heads:
        table.add_column(head, justify="right")
    for row in rows:
        table.add_row(*row)
    return table


def _print(table: Table) -> None:
    Console().print(table)
