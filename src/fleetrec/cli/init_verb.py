"""The verb ``init``: its arguments."""

from pathlib import Path
from typing import Annotated

import typer

init_app = typer.Typer()


@init_app.command()
def init(
    data: Annotated[
        str, typer.Argument(help="A CSV or Parquet file, or a folder or pattern of them.")
    ],
    *,
    label: Annotated[
        str | None, typer.Option(help="The column of 0 and 1; by default it is guessed.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder to create; by default <name>_model.")
    ] = None,
    split: Annotated[
        str, typer.Option(help="How rows to evaluate on are chosen: auto, time or random.")
    ] = "auto",
) -> None:
    """Write a first job for your data, which ``fleetrec run`` trains at once.

    Example: fleetrec init clicks.csv
    """
    from fleetrec.cli.init import InitRequest, init_job

    init_job(InitRequest(data=data, out=out, label=label, split=split))
