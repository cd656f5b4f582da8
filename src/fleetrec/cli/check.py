"""``fleetrec check``."""

from collections.abc import Sequence

import typer

from fleetrec.cli.job import load_job
from fleetrec.cli.run import check_engines
from fleetrec.config.job import PhaseOptions
from fleetrec.data.loader import Loader

NUM_SAMPLES = 1000


def check_job(text: str, *, overrides: Sequence[str]) -> None:
    """Check a job and the first samples of its data; raises what ``run`` would raise."""
    job = load_job(text, overrides=overrides)
    for notice in job.notices:
        typer.echo(f"notice: {notice}")
    check_engines(job)
    phases = {phase.name: phase for run in job.runs for phase in run.phases}
    for phase in phases.values():
        for warning in _slot_warnings(phase):
            typer.echo(f"warning: data set {phase.dataset.name}: {warning}")
    for run in job.runs:
        names = ", ".join(phase.name for phase in run.phases)
        epochs = f", {run.num_epochs} epochs" if run.kind == "train" else ""
        typer.echo(f"runner {run.name}: {run.kind}, {run.device.kind}{epochs}, phases {names}")
    typer.echo(f"{job.source}: ok")


def _slot_warnings(phase: PhaseOptions) -> list[str]:
    loader = Loader(phase.dataset, seed=0)
    with loader.epoch(0) as batches:
        for batch in batches:
            if batch.cursor.samples >= NUM_SAMPLES:
                break
    return loader.report.take_warnings()
