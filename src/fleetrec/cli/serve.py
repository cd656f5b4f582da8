"""``fleetrec serve``: predictions of an inference model over HTTP."""

from fleetrec.cli.logs import console_logging
from fleetrec.cli.signals import StopRequest
from fleetrec.serving.options import ServeOptions
from fleetrec.serving.run import serve


def serve_command(options: ServeOptions) -> None:
    """Serve until SIGINT or SIGTERM."""
    # uvicorn handles the signals and raises them again when it has stopped: that is no failure.
    with console_logging(), StopRequest():
        serve(options)
