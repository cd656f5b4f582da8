"""``fleetrec online``: train on data that arrives, and continue where the last run stopped."""

import dataclasses

from fleetrec.cli.run import RunRequest, run_command
from fleetrec.config.load import online_mode


def online_command(request: RunRequest) -> None:
    """Run the online runners of a job: those of ``mode``, else the only one of the file."""
    overrides = (*request.overrides, *online_mode(request.job_request()))
    run_command(dataclasses.replace(request, overrides=overrides))
