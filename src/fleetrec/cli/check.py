"""``fleetrec check``."""

from collections.abc import Sequence

import typer

from fleetrec.cli.jobs import load_checked
from fleetrec.config.job import RunOptions
from fleetrec.config.load import JobRequest
from fleetrec.data.loader import Loader

NUM_SAMPLES = 1000


def check_job(source: str, *, overrides: Sequence[str]) -> None:
    """Check a job and the first samples of its data; raises what ``run`` would raise."""
    job = load_checked(JobRequest(source=source, overrides=overrides))
    for notice in job.notices:
        typer.echo(f"notice: {notice}")
    width = max(map(len, job.fields), default=0)
    for path, meaning in job.fields.items():
        typer.echo(f"{path:{width}}  {meaning}")
    datasets = {
        dataset.name: dataset
        for run in job.runs
        for dataset in (
            *(phase.dataset for phase in run.phases),
            *([] if run.evaluation is None else [run.evaluation.dataset]),
        )
    }
    for dataset in datasets.values():
        loader = Loader(dataset, seed=0)
        with loader.epoch(0) as batches:
            for batch in batches:
                if batch.cursor.samples >= NUM_SAMPLES:
                    break
        for warning in loader.report.take_warnings():
            typer.echo(f"warning: data set {dataset.name}: {warning}")
    for run in job.runs:
        typer.echo(f"runner {run.name}: {_summary(run)}")
    typer.echo(f"{job.source}: ok")


def _summary(run: RunOptions) -> str:
    words: list[str] = [run.kind, run.device.kind]
    if run.kind == "train":
        words += [] if run.num_epochs is None else [f"{run.num_epochs} epochs"]
        words += [] if run.num_steps is None else [f"{run.num_steps} steps"]
    return ", ".join([*words, f"phases {', '.join(phase.name for phase in run.phases)}"])
