"""Measure the AUC that every built-in model reaches on its sample data, and what it can promise.

A model is trained as its config says, with several seeds and two kinds of products: the best that
the processor has, and plain ones, with neither tiles (AMX) nor vectors wider than SSE. They differ
in the last bits, which is enough to show a config that learns by chance. The promise is the worst
AUC of all these runs, less a margin. `tests/contract/test_models.py` checks it with one run.

usage: python -m tools.promises [--models rank/dnn,rank/fm] [--seeds 5] [--no-plain] [--write]
"""

import argparse
import dataclasses
import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fleetrec.cli.job import load_job
from fleetrec.config.yaml_dialect.locate import ZOO, zoo_names
from fleetrec.core.env import environment_with

PAGE = Path(__file__).parents[1] / "docs" / "zoo.md"
UNMEASURED = "-"
MARGIN = 0.01  # of a worst AUC; the rest is then cut off behind two digits
PROMISE = re.compile(r"(an? (\S+) of at least )(0\.\d+)( is reached)")
BEST: Mapping[str, str] = {}
PLAIN: Mapping[str, str] = {
    "FLEETREC_TILES": "0",
    "ATEN_CPU_CAPABILITY": "default",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "MKL_CBWR": "COMPATIBLE",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """The AUC of one model by seed; of several tasks, the worst. ``plain`` may be unmeasured."""

    name: str
    best: tuple[float, ...]
    plain: tuple[float, ...]

    @property
    def worst(self) -> float:
        """Return the AUC of the worst run."""
        return min((*self.best, *self.plain))

    @property
    def promise(self) -> float:
        """Return what the README of the model can promise."""
        return math.floor((self.worst - MARGIN) * 100) / 100


def main() -> None:
    """Measure and print; with --write, change docs/zoo.md and the READMEs of the models."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=",".join(zoo_names()))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--no-plain", action="store_true", help="the best products only, in half the time"
    )
    parser.add_argument("--write", action="store_true", help="write docs/zoo.md and the READMEs")
    options = parser.parse_args()
    names = options.models.split(",")
    if options.write and set(names) != set(zoo_names()):
        parser.error("--write needs all models: leave out --models")
    rows = []
    for name in names:
        rows.append(measure(name, num_seeds=options.seeds, with_plain=not options.no_plain))
        print(line_of(rows[-1]), flush=True)
    if options.write:
        write_page(rows)
        for row in rows:
            write_promise(row)


def measure(name: str, *, num_seeds: int, with_plain: bool) -> Measured:
    """Train one model with every seed and both kinds of products."""
    seeds = range(num_seeds)
    best = tuple(auc_of(name, seed=seed, environment=BEST) for seed in seeds)
    plain = tuple(auc_of(name, seed=seed, environment=PLAIN) for seed in seeds if with_plain)
    return Measured(name=name, best=best, plain=plain)


def auc_of(name: str, *, seed: int, environment: Mapping[str, str]) -> float:
    """Return the AUC of the last inference of a job, in a process of its own."""
    runs = load_job(name, overrides=()).runs
    (infer,) = (run for run in runs if run.kind == "infer")
    seeds = [f"runner.{run.name}.seed={seed}" for run in runs if run.kind == "train"]
    changes = [word for change in seeds for word in ("-o", change)]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "fleetrec.run", "-m", name, *changes],
            cwd=folder,
            env=environment_with({"OMP_NUM_THREADS": "1", **environment}, unless_set={}),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"{name}, seed {seed}: {done.stderr}")
        run_folder = Path(folder) / "logs" / f"{Path(name).name}.{infer.name}"
        return last_figure(run_folder, promised_metric(name))


def promised_metric(name: str) -> str:
    """Return the metric of which the README of a model says what is reached."""
    found = PROMISE.search((ZOO / name / "README.md").read_text(encoding="utf-8"))
    return "AUC" if found is None else found[2]


def last_figure(run_folder: Path, metric: str) -> float:
    """Return a metric of the last pass of a run; of several tasks (AUC_<task>), the worst."""
    lines = (run_folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    passes = [event for event in map(json.loads, lines) if event["event"] == "pass"]
    figures: dict[str, float] = passes[-1]["metrics"]
    return min(value for name, value in figures.items() if name.partition("_")[0] == metric)


def to_markdown(rows: Sequence[Measured]) -> str:
    """Return the table: the five seeds, the worst of all runs, the promise."""
    seeds = range(len(rows[0].best))
    heads = ["model", *(f"seed {seed}" for seed in seeds), "worst, plain products", "promise"]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    return "\n".join([*lines, *map(line_of, rows)]) + "\n"


def line_of(row: Measured) -> str:
    """Return one line of the table."""
    cells = [f"`{row.name}`", *(f"{auc:.3f}" for auc in row.best)]
    plain = f"{min(row.plain):.3f}" if row.plain else UNMEASURED
    return f"| {' | '.join(cells)} | {plain} | {row.promise:.2f} |"


def write_page(rows: Sequence[Measured]) -> None:
    """Put the table between the marks of the page."""
    begin, end = "<!-- begin of promises -->\n", "<!-- end of promises -->\n"
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    tail = rest.partition(end)[2]
    PAGE.write_text(f"{head}{begin}\n{to_markdown(rows)}\n{end}{tail}", encoding="utf-8")


def write_promise(row: Measured) -> None:
    """Put the promise into the README of a model."""
    path = ZOO / row.name / "README.md"
    text = path.read_text(encoding="utf-8")
    path.write_text(PROMISE.sub(rf"\g<1>{row.promise:g}\g<3>", text), encoding="utf-8")


def table_rows(page: str) -> Iterator[tuple[str, list[float], float]]:
    """Yield name, AUCs and promise of every line of the table in the page."""
    table = page.partition("<!-- begin of promises -->")[2].partition("<!-- end of promises -->")[0]
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0].startswith("`"):
            *aucs, promise = (float(cell) for cell in cells[1:] if cell != UNMEASURED)
            yield cells[0].strip("`"), aucs, promise


if __name__ == "__main__":
    main()
