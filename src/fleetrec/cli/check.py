"""``fleetrec check``."""

from collections.abc import Sequence

import typer

from fleetrec.cli.jobs import load_checked
from fleetrec.config.job import RunOptions
from fleetrec.config.load import JobRequest
from fleetrec.train.dry_run import dry_run


def check_job(source: str, *, overrides: Sequence[str]) -> None:
    """Check a job, its models and the first samples of its data; raises what ``run`` does."""
    job = load_checked(JobRequest(source=source, overrides=overrides))
    for notice in job.notices:
        typer.echo(f"notice: {notice}")
    width = max(map(len, job.fields), default=0)
    for path, meaning in job.fields.items():
        typer.echo(f"{path:{width}}  {meaning}")
    warnings = [warning for run in job.runs for warning in dry_run(run)]
    for warning in dict.fromkeys(warnings):  # runs share data sets
        typer.echo(f"warning: {warning}")
    for run in job.runs:
        typer.echo(f"runner {run.name}: {_summary(run)}")
    typer.echo(f"{job.source}: ok")


def _summary(run: RunOptions) -> str:
    words: list[str] = [run.kind, run.device.kind]
    if run.kind == "train":
        words += [] if run.num_epochs is None else [f"{run.num_epochs} epochs"]
        words += [] if run.num_steps is None else [f"{run.num_steps} steps"]
    return ", ".join([*words, f"phases {', '.join(phase.name for phase in run.phases)}"])
