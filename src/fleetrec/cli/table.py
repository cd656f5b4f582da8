"""``fleetrec table``: look into the tables of a checkpoint."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import typer
from rich.console import Console
from rich.table import Table

from fleetrec.checkpoint.folder import Folder, open_folder
from fleetrec.checkpoint.table_view import (
    TableView,
    compare,
    read_table,
    table_names,
    write_parquet,
)
from fleetrec.core.errors import ConfigError

NUM_TOP = 10
QUANTILES = (0.0, 0.1, 0.5, 0.9, 0.99, 1.0)


def show_stats(path: Path) -> None:
    """Print the figures of every table of a checkpoint."""
    folder = open_folder(path, kind="checkpoint")
    for name in table_names(folder):
        view = read_table(folder, name)
        typer.echo(
            f"{name}: {len(view)} rows of width {view.rows.shape[1]}, "
            f"{view.num_candidates} ids waiting for admission"
        )
        _print(_quantiles(view))
        _print(_top(view))


def show_rows(path: Path, ids: Sequence[int], *, table: str | None) -> None:
    """Print single rows."""
    folder = open_folder(path, kind="checkpoint")
    view = read_table(folder, _choose(folder, table))
    for wanted in ids:
        at = view.find(wanted % 2**64)
        if at is None:
            typer.echo(f"{wanted}: no row")
            continue
        vector = " ".join(f"{value:.6g}" for value in view.rows[at])
        typer.echo(
            f"{wanted}: show {view.shows[at]:g} click {view.clicks[at]:g} "
            f"last_seen {view.last_seen[at]} [{vector}]"
        )


def dump(path: Path, target: Path, *, table: str | None) -> None:
    """Write the rows of a table to a Parquet file."""
    folder = open_folder(path, kind="checkpoint")
    view = read_table(folder, _choose(folder, table))
    write_parquet(view, target)
    typer.echo(f"{target}: {len(view)} rows")


def show_difference(before: Path, after: Path) -> None:
    """Print what became of the tables from one checkpoint to another."""
    folders = [open_folder(path, kind="checkpoint") for path in (before, after)]
    for name in table_names(folders[0]):
        found = compare(*(read_table(folder, name) for folder in folders))
        typer.echo(
            f"{name}: {len(found.only_before)} rows only in {before}, "
            f"{len(found.only_after)} only in {after}, {found.num_changed} of "
            f"{len(found.common)} common rows changed"
        )
        order = np.argsort(-found.distances)[:NUM_TOP]
        rows = [(str(found.common[i]), f"{found.distances[i]:.4g}") for i in order]
        _print(_table(["id", "moved by"], rows))


def _choose(folder: Folder, table: str | None) -> str:
    names = table_names(folder)
    if table is not None:
        return table
    if len(names) == 1:
        return names[0]
    raise ConfigError([f"{folder.path}: name one table with --table: {', '.join(names)}"])


def _quantiles(view: TableView) -> Table:
    columns: dict[str, npt.NDArray[np.float64]] = {
        "norm": view.norms(),
        "show": view.shows,
        "click": view.clicks,
    }
    heads = ["", *(f"{q:.0%}" for q in QUANTILES)]
    rows = [
        (name, *(f"{value:.4g}" for value in np.quantile(column, QUANTILES)))
        for name, column in columns.items()
        if len(column)
    ]
    return _table(heads, rows)


def _top(view: TableView) -> Table:
    """Return the rows that were shown most."""
    norms = view.norms()
    order = np.lexsort((view.ids, -view.shows))[:NUM_TOP]
    rows = [
        (str(view.ids[i]), f"{view.shows[i]:g}", f"{view.clicks[i]:g}", f"{norms[i]:.4g}")
        for i in order
    ]
    return _table(["id", "show", "click", "norm"], rows)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for head in heads:
        table.add_column(head, justify="right")
    for row in rows:
        table.add_row(*row)
    return table


def _print(table: Table) -> None:
    Console().print(table)
