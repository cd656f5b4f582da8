"""``make bench``: run the benchmarks, print a table, write results.json.

Times on a shared machine are noise; ratios are taken between things measured in turns, in one run.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks import (
    criteo_like,
    end_to_end,
    exchange,
    online,
    parameter_server,
    prediction,
    readers,
    saving,
    saving_served,
    serving,
    slot_text,
    store,
)
from benchmarks.criteo_like import cached_parts
from benchmarks.figure import Figure
from fleetrec._native import keep_freed_memory

Measure = Callable[[Sequence[Path], argparse.Namespace], list[Figure]]

BENCHMARKS: dict[str, Measure] = {
    "slot_text": lambda parts, asked: slot_text.measure(
        parts, batch_size=asked.batch_size, num_rounds=asked.rounds
    ),
    "readers": lambda parts, asked: readers.measure(
        parts, batch_size=asked.batch_size, num_rounds=asked.rounds
    ),
    "end_to_end": lambda parts, asked: end_to_end.measure(
        parts, batch_size=asked.batch_size, num_rounds=asked.rounds
    ),
    "server": lambda parts, asked: parameter_server.measure(
        parts, batch_size=asked.batch_size, num_rounds=asked.rounds
    ),
    "store": lambda _, asked: store.measure(
        batch_size=asked.batch_size,
        num_rounds=asked.rounds,
        num_ids=asked.ids,
        growth_rows=asked.growth_rows,
    ),
    "saving": lambda _, asked: saving.measure(
        batch_size=asked.batch_size, num_rounds=asked.rounds, num_ids=asked.ids
    ),
    "saving_served": lambda parts, asked: saving_served.measure(
        parts, batch_size=asked.batch_size, num_ids=max(asked.ids, criteo_like.NUM_IDS)
    ),
    "online": lambda _, asked: online.measure(
        cached_parts(asked.cache, num_samples=24 * 16 * 1024, num_parts=24)
    ),
    "serving": lambda parts, asked: serving.measure(parts, num_rounds=asked.rounds),
    "prediction": lambda parts, asked: prediction.measure(parts, num_rounds=asked.rounds),
    "exchange": lambda parts, asked: exchange.measure(parts[0], batch_size=asked.batch_size),
}

# Runnable processes over the last minute, before we begin: others compute, too.
BUSY_LOAD = 0.5

TABLE_WIDTH = 100


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what was asked for; a target that is missed is shown, and fails nothing."""
    asked = _parser().parse_args(arguments)
    keep_freed_memory()  # as a run does; whatever is compared has the same
    if asked.threads:
        torch.set_num_threads(asked.threads)
    console = Console(width=TABLE_WIDTH)
    load = os.getloadavg()[0]
    if load > BUSY_LOAD:
        console.print(f"the machine is busy (load {load:.1f}): distrust ratios of wall time")
    begin = time.perf_counter()
    parts = cached_parts(asked.cache, num_samples=asked.rows, num_parts=asked.rounds + 1)
    figures = []
    for name in asked.only:
        console.print(f"measuring {name} ...", style="dim")
        figures += BENCHMARKS[name](parts, asked)
    console.print(to_table(figures))
    path = asked.cache / "results.json"
    path.write_text(
        json.dumps(_record(figures, asked, load=load), indent=1) + "\n", encoding="utf-8"
    )
    seconds = time.perf_counter() - begin
    console.print(f"{seconds:.0f} s; results in {path}", style="dim")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=[*BENCHMARKS], default=[*BENCHMARKS], help="default: all"
    )
    parser.add_argument("--rows", type=positive, default=6 * 16 * 4096, help="size of the data")
    parser.add_argument("--ids", type=positive, default=store.NUM_IDS, help="rows of a store")
    parser.add_argument(
        "--growth-rows", type=positive, default=store.GROWTH_ROWS, help="rows that a table grows to"
    )
    parser.add_argument("--batch-size", type=positive, default=4096)
    parser.add_argument("--rounds", type=positive, default=5, help="medians are taken over these")
    parser.add_argument(
        "--threads", type=positive, help="of torch; 1 is the calmest on a busy machine"
    )
    parser.add_argument(
        "--cache", type=Path, default=Path(".cache/bench"), help="where data and results go"
    )
    return parser


def positive(text: str) -> int:
    """Return the number that an argument gives."""
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 on, got {text!r}")
    return int(text)


def to_table(figures: Sequence[Figure]) -> Table:
    """Return what is printed."""
    table = Table("name", "value", "unit", "ratio", "range", "target", "met?")
    for index in (1, 3, 4, 5):
        table.columns[index].justify = "right"
    for figure in figures:
        table.add_row(
            figure.name,
            f"{figure.value:,.0f}",
            figure.unit,
            "" if figure.ratio is None else f"{figure.ratio:.2f}",
            f"{min(figure.ratios):.2f}-{max(figure.ratios):.2f}" if figure.ratios else "",
            "" if figure.target is None else f">= {figure.target:g}",
            {True: "yes", False: "no", None: ""}[figure.is_met],
        )
    return table


def _record(
    figures: Sequence[Figure], asked: argparse.Namespace, *, load: float
) -> dict[str, object]:
    return {
        "load_before": load,
        "rows": asked.rows,
        "ids": asked.ids,
        "growth_rows": asked.growth_rows,
        "batch_size": asked.batch_size,
        "rounds": asked.rounds,
        "num_threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "figures": [figure.to_dict() for figure in figures],
    }


if __name__ == "__main__":
    main()
