"""The verbs for cluster jobs: their arguments; the work is done in other modules."""

from pathlib import Path
from typing import Annotated

import typer

submit_app = typer.Typer()
job_app = typer.Typer(help="Follow and end submitted jobs.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(help="A job folder that fleetrec submit has made.")]
JobId = Annotated[
    str | None, typer.Option("--id", help="The job, if the folder was submitted several times.")
]


Again = Annotated[Path | None, typer.Argument(help="A job folder to submit again, after edits.")]
BackendName = Annotated[
    str | None,
    typer.Option(
        "--backend",
        help="Instead of the key backend: paddlecloud, mpi, slurm, kubernetes, ray, dlc, local. A "
        "path is read as -b.",
    ),
]
BackendPath = Annotated[
    Path | None, typer.Option("-b", help="backend.yaml: cluster, data, resources.")
]
Override = Annotated[
    list[str] | None,
    typer.Option("-o", "--override", help="Change a key, as for run. Repeatable."),
]
Serve = Annotated[
    str | None,
    typer.Option(help="Serve an inference model on Kubernetes: a URL, or a path in its pods."),
]
ServeFollow = Annotated[
    str | None, typer.Option(help="Serve the newest model of a run: a URL or a path.")
]


@submit_app.command()
def submit(  # noqa: PLR0913
    folder: Again = None,
    *,
    model: Annotated[
        str | None, typer.Option("-m", "--model", help="A YAML job, or a pipeline.")
    ] = None,
    backend_file: BackendPath = None,
    backend: BackendName = None,
    override: Override = None,
    serve: Serve = None,
    serve_follow: ServeFollow = None,
    resume: Annotated[
        bool, typer.Option("--resume", "--continue_train", help="Resume on the nodes.")
    ] = False,
    local_mpi: Annotated[
        bool,
        typer.Option(help="Run a job for PaddleCloud's MPI cluster by mpirun, from this machine."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Make the job folder, but do not submit it.")
    ] = False,
) -> None:
    """Submit a job to a cluster: check it, make its job folder, start it.

    Example: fleetrec submit -m config.yaml -b backend.yaml --dry-run
    """
    from fleetrec.cli.submit import submit_again, submit_command
    from fleetrec.cli.submit_plan import SubmitRequest
    from fleetrec.core.errors import ConfigError

    if backend and backend_file is None and Path(backend).suffix in (".yaml", ".yml"):
        backend_file, backend = Path(backend), None
    if folder is not None:
        if any((model, backend_file, backend, override, serve, serve_follow, resume, local_mpi)):
            raise ConfigError(["submit: expected a job folder alone, or -m and -b"])
        submit_again(folder, dry_run=dry_run)
        return
    if serve or serve_follow:
        if backend_file is None or any((model, override, resume, local_mpi)):
            raise ConfigError(["submit: expected --serve MODEL -b backend.yaml"])
        _serve(serve, serve_follow, backend_file, backend=backend, dry_run=dry_run)
        return
    if model is None or backend_file is None:
        raise ConfigError(["submit: expected -m config.yaml -b backend.yaml, or a job folder"])
    submit_command(
        SubmitRequest(
            model=model,
            backend_file=backend_file,
            backend=backend,
            overrides=override or (),
            resume=resume,
            local_mpi=local_mpi,
            dry_run=dry_run,
        )
    )


def _serve(
    model: str | None,
    follow: str | None,
    backend_file: Path,
    *,
    backend: str | None,
    dry_run: bool,
) -> None:
    from fleetrec.cli.submit_serving import ServeRequest, submit_serving
    from fleetrec.core.errors import ConfigError

    if model and follow:
        raise ConfigError(["submit: expected --serve or --serve-follow, not both"])
    submit_serving(
        ServeRequest(
            model=model, follow=follow, backend_file=backend_file, backend=backend, dry_run=dry_run
        )
    )


@submit_app.command("pai2job")
def pai2job(  # noqa: PLR0913
    command: Annotated[
        str, typer.Argument(help="A command pai -name easy_rec_ext -D..., or a file with it.")
    ],
    *,
    output: Annotated[Path, typer.Option(help="The file to write.")] = Path("backend.yaml"),
    backend: Annotated[str, typer.Option(help="The cluster to submit to.")] = "kubernetes",
    config: Annotated[str | None, typer.Option(help="The pipeline, instead of -Dconfig.")] = None,
    train_input_path: Annotated[
        str | None, typer.Option("--train_input_path", help="Data instead of -Dtrain_tables.")
    ] = None,
    eval_input_path: Annotated[
        str | None, typer.Option("--eval_input_path", help="Data instead of -Deval_tables.")
    ] = None,
    skip_refused: Annotated[
        bool, typer.Option(help="Convert without the options that are refused.")
    ] = False,
) -> None:
    """Convert an EasyRec job on PAI to a backend.yaml.

    Example: fleetrec pai2job job.sql --train_input_path data/train.csv
    """
    from fleetrec.cli.pai2job import convert

    given = {
        "config": config,
        "train_tables": train_input_path,
        "eval_tables": eval_input_path,
    }
    replaced = {name: value for name, value in given.items() if value is not None}
    convert(command, output, backend=backend, replaced=replaced, skips_refused=skip_refused)


@submit_app.command(
    hidden=True, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
def node(
    command: Annotated[list[str], typer.Argument(help="What a process of a job runs.")],
) -> None:
    """Run a process of a submitted job on its node; engines start it.

    Example: fleetrec node -- python -m fleetrec.run -m config.yaml
    """
    from fleetrec.cli.node import run_node

    raise SystemExit(run_node(command))


@job_app.command("status")
def job_status(folder: Folder, *, job_id: JobId = None) -> None:
    """Print the state of a job; the status is 0 unless it failed or was cancelled.

    Example: fleetrec job status PaddleRec_CTR_202611181200
    """
    from fleetrec.cli.job_verbs import show_status

    show_status(folder, job_id=job_id)


@job_app.command("logs")
def job_logs(folder: Folder, *, job_id: JobId = None) -> None:
    """Print what the processes of a job have printed.

    Example: fleetrec job logs PaddleRec_CTR_202611181200
    """
    from fleetrec.cli.job_verbs import show_logs

    show_logs(folder, job_id=job_id)


@job_app.command("cancel")
def job_cancel(folder: Folder, *, job_id: JobId = None) -> None:
    """End a job.

    Example: fleetrec job cancel PaddleRec_CTR_202611181200
    """
    from fleetrec.cli.job_verbs import cancel_job

    cancel_job(folder, job_id=job_id)
