"""``fleetrec data``: show data as a model gets it."""

import contextlib
import html
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from fleetrec.cli.job import load_job
from fleetrec.config.job import DatasetOptions
from fleetrec.core.batch import Batch
from fleetrec.core.errors import ConfigError
from fleetrec.data.convert import convert, single_valued
from fleetrec.data.describe import DataStats, FeatureStats, describe
from fleetrec.data.loader import Loader

MAX_SHOWN = 8  # values of one feature in one sample
MIN_WIDTH = 140  # of the table, where a terminal does not say
BAR_WIDTH, BAR_HEIGHT = 320, 60

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse}td,th{padding:.2rem .8rem;text-align:right;
border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}rect{fill:#06c}
"""


def show_head(path: str | None, *, config: str, dataset: str | None, num_rows: int) -> None:
    """Print the first samples."""
    loader = _loader(path, config=config, dataset=dataset, batch_size=num_rows)
    with loader.epoch(0) as batches:
        for batch in islice(batches, 1):
            for sample in range(batch.num_samples):
                typer.echo(f"sample {sample}")
                for line in _sample_lines(batch, sample):
                    typer.echo(f"  {line}")
    for warning in loader.report.take_warnings():
        typer.echo(f"warning: {warning}")


def show_stats(path: str | None, *, config: str, dataset: str | None, page: Path | None) -> None:
    """Print coverage, cardinality, lengths and ranges of every feature, and write a page."""
    loader = _loader(path, config=config, dataset=dataset)
    with _reading(loader) as batches:
        stats = describe(batches, inputs=loader.inputs, report=loader.report)
    typer.echo(f"{stats.num_samples} samples in {len(loader.files)} files")
    Console(width=max(Console().width, MIN_WIDTH)).print(_stats_table(stats))
    if page is not None:
        page.write_text(_page(stats), encoding="utf-8")
        typer.echo(f"page: {page}")


def convert_data(
    path: str | None, target: Path, *, config: str, dataset: str | None, to: str
) -> None:
    """Write a data set in another format."""
    loader = _loader(path, config=config, dataset=dataset)
    with _reading(loader) as batches:
        single = single_valued(batches, loader.inputs)
    with _reading(loader) as batches:
        num_samples = convert(batches, target, to=to, inputs=loader.inputs, single=single)
    typer.echo(f"{target}: {num_samples} samples, {target.stat().st_size:,} bytes")


def _loader(
    path: str | None, *, config: str, dataset: str | None, batch_size: int | None = None
) -> Loader:
    job = load_job(config)
    found = {p.dataset.name: p.dataset for run in job.runs for p in run.phases}
    if dataset is not None and dataset not in found:
        raise ConfigError([f"no data set in use is called {dataset!r}; known: {', '.join(found)}"])
    options: DatasetOptions = next(iter(found.values())) if dataset is None else found[dataset]
    changes = {"data_path": path, "batch_size": batch_size}
    given = {key: value for key, value in changes.items() if value is not None}
    return Loader(options.model_copy(update=given), seed=0)


@contextlib.contextmanager
def _reading(loader: Loader) -> Iterator[Iterator[Batch]]:
    """Read all batches; a bar shows how far it is."""
    with loader.epoch(0) as batches, _progress() as progress:
        task = progress.add_task("reading", total=1.0)

        def watched() -> Iterator[Batch]:
            for batch in batches:
                progress.update(task, completed=batch.progress)
                yield batch

        yield watched()


def _progress() -> Progress:
    console = Console(stderr=True)
    return Progress(console=console, transient=True, disable=not console.is_terminal)


def _sample_lines(batch: Batch, sample: int) -> list[str]:
    lines = []
    for name in batch.ids:
        jagged = batch.ids[name]
        first, last = jagged.offsets[sample : sample + 2].tolist()
        ids = [str(i % 2**64) for i in jagged.values[first:last].tolist()]
        lines.append(f"{name}: {_some(ids)}")
    for name, tensor in batch.dense.items():
        values = [f"{value:.6g}" for value in tensor[sample].flatten().tolist()]
        lines.append(f"{name}: [{_some(values)}]")
    return lines


def _some(texts: Sequence[str]) -> str:
    more = f" ... ({len(texts)} values)" if len(texts) > MAX_SHOWN else ""
    return " ".join(texts[:MAX_SHOWN]) + more


def _heads() -> tuple[str, ...]:
    return ("feature", "kind", "coverage", "different", "lengths", "mean", "low", "high", "ones")


def _cells(feature: FeatureStats) -> tuple[str, ...]:
    is_sparse = feature.kind == "sparse"
    about = "" if feature.cardinality.is_exact else "~"
    return (
        feature.name,
        feature.kind,
        f"{feature.coverage:.1%}",
        f"{about}{feature.cardinality.count:,}" if is_sparse else "",
        f"{feature.shortest}-{feature.longest}" if is_sparse else "",
        f"{feature.mean:.4g}",
        f"{feature.low:.6g}" if feature.num_values else "",
        f"{feature.high:.6g}" if feature.num_values else "",
        "" if feature.rate is None else f"{feature.rate:.2%}",
    )


def _stats_table(stats: DataStats) -> Table:
    table = Table(box=None, pad_edge=False)
    for head in _heads():
        table.add_column(head, justify="right")
    for feature in stats.features:
        table.add_row(*_cells(feature))
    return table


def _page(stats: DataStats) -> str:
    heads = "".join(f"<th>{head}" for head in (*_heads(), "lengths or values"))
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}" for cell in _cells(f)) + f"<td>{_bars(f)}"
        for f in stats.features
    )
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>data</title><style>{STYLE}"
        f"</style><h1>{stats.num_samples:,} samples</h1><table><tr>{heads}{rows}</table></html>\n"
    )


def _bars(feature: FeatureStats) -> str:
    edges, heights = feature.histogram()
    if not len(heights) or not heights.max():
        return ""
    width = BAR_WIDTH / len(heights)
    tall = heights / heights.max() * BAR_HEIGHT
    bars = "".join(
        f"<rect x={i * width:.1f} y={BAR_HEIGHT - h:.1f} width={max(1.0, width - 1):.1f} "
        f"height={h:.1f}><title>{edges[i]:.4g}: {heights[i]}</title></rect>"
        for i, h in enumerate(np.asarray(tall).tolist())
    )
    return f"<svg width={BAR_WIDTH} height={BAR_HEIGHT}>{bars}</svg>"
