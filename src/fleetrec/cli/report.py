"""``fleetrec report``: write the page about a run that is over, or that is still running."""

from pathlib import Path
from typing import Annotated

import typer

from fleetrec.core.errors import DataError

report_app = typer.Typer()


@report_app.command("report")
def report(
    folder: Annotated[
        Path, typer.Argument(help="The folder of a run: logs/<workspace>.<runner>, or model_dir.")
    ],
) -> None:
    """Write report.html about a run that is over or still running, from its metrics.jsonl.

    Example: fleetrec report logs/dnn.online
    """
    from fleetrec.train.report import write_report
    from fleetrec.train.run_folder import RunFolder

    run = RunFolder(path=folder)
    if not run.metrics.is_file():
        raise DataError(
            f"{folder}: expected the folder of a run with {run.metrics.name}, but there is none; "
            "a run logs where its folder is"
        )
    write_report(run)
    typer.echo(run.report)
