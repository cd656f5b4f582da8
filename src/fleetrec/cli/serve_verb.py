"""The verb that serves predictions: its arguments; the work is done in other modules."""

from pathlib import Path
from typing import Annotated

import typer

serve_app = typer.Typer()

ModelArgument = Annotated[
    str | None, typer.Argument(help="An inference model: a folder or a URL. Or use --follow.")
]
FollowOption = Annotated[
    str | None,
    typer.Option(help="Serve the newest model of a run: the folder of its done files, or a URL."),
]
PollOption = Annotated[float, typer.Option(min=0.01, help="Seconds between two looks for it.")]
NameOption = Annotated[str, typer.Option(help="Name of the model in paths and responses.")]
PortOption = Annotated[int, typer.Option(min=0, max=65535, help="0: any free port.")]
ThreadsOption = Annotated[int, typer.Option(min=1, help="Threads that compute, a batch each.")]
BatchOption = Annotated[int, typer.Option(min=1, help="Samples that are computed at once.")]
DelayOption = Annotated[
    int, typer.Option(min=0, help="Microseconds that a request waits for others.")
]
BytesOption = Annotated[int, typer.Option(min=1, help="Larger requests get 413.")]
ConcurrencyOption = Annotated[
    int, typer.Option(min=1, help="Requests in progress; further ones get 503.")
]
SamplesOption = Annotated[int, typer.Option(min=1, help="Samples of one request.")]
TimeoutOption = Annotated[
    float, typer.Option(min=0.001, help="For a request to arrive, and to be computed.")
]


@serve_app.command()
def serve(  # noqa: PLR0913
    model: ModelArgument = None,
    *,
    follow: FollowOption = None,
    poll_s: PollOption = 10,
    name: NameOption = "model",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: PortOption = 8000,
    threads: ThreadsOption = 1,
    max_batch: BatchOption = 256,
    max_delay_us: DelayOption = 200,
    max_request_bytes: BytesOption = 16 << 20,
    max_concurrency: ConcurrencyOption = 256,
    max_samples: SamplesOption = 65_536,
    timeout_s: TimeoutOption = 30,
    tls_certificate: Annotated[Path | None, typer.Option(help="Serve with TLS (PEM).")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Key of the certificate (PEM).")] = None,
    access_log: Annotated[bool, typer.Option("--access-log", help="Log every request.")] = False,
) -> None:
    """Serve predictions over HTTP (Open Inference Protocol v2, JSON), until SIGINT or SIGTERM.

    Example: fleetrec serve inference_dnn/0 --port 8000
    """
    from fleetrec.cli.serve import serve_command
    from fleetrec.core.env import read_token
    from fleetrec.serving.options import BatchOptions, Limits, ServeOptions

    limits = Limits(
        max_request_bytes=max_request_bytes,
        max_concurrency=max_concurrency,
        max_samples=max_samples,
        timeout_s=timeout_s,
    )
    batching = BatchOptions(
        max_batch=max_batch, max_delay_s=max_delay_us / 1e6, num_threads=threads
    )
    options = ServeOptions(
        model=model,
        follow=follow,
        poll_s=poll_s,
        name=name,
        host=host,
        port=port,
        token=read_token(),
        certificate=tls_certificate,
        key=tls_key,
        access_log=access_log,
        limits=limits,
        batching=batching,
    )
    serve_command(options)
