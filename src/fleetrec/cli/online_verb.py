"""The verb for online training: its arguments; the work is done in other modules."""

from pathlib import Path
from typing import Annotated

import typer

online_app = typer.Typer()


@online_app.command()
def online(
    *,
    model: Annotated[
        str, typer.Option("-m", "--model", help="A YAML job, or a folder that holds one.")
    ],
    override: Annotated[
        list[str] | None,
        typer.Option("-o", "--override", help="Change a key, as for run. Repeatable."),
    ] = None,
    log_dir: Annotated[
        Path | None,
        typer.Option(help="Folder for run folders and logs of processes; by default logs."),
    ] = None,
) -> None:
    """Train on data as it arrives, pass after pass; continues where the last run stopped.

    Example: fleetrec online -m config.yaml -o runner.online.end_day=20261118
    """
    from fleetrec.cli.online import online_command
    from fleetrec.cli.run import RunRequest

    online_command(RunRequest(model=model, overrides=override or (), log_dir=log_dir))
