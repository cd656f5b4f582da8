"""The command line: parse, call, print. Everything heavy is imported by the verb that needs it."""

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from fleetrec import __version__
from fleetrec.cli.init_verb import init_app
from fleetrec.cli.launch_ps import launch_app
from fleetrec.cli.model_verbs import model_app
from fleetrec.cli.online_verb import online_app
from fleetrec.cli.pipeline_verbs import OnlyOption, checkpoint_app, pipeline_app
from fleetrec.cli.plan_verb import plan_app
from fleetrec.cli.recall_verb import recall_app
from fleetrec.cli.report import report_app
from fleetrec.cli.serve_verb import serve_app
from fleetrec.cli.submit_verb import job_app, submit_app
from fleetrec.cli.table_verbs import table_app
from fleetrec.core.errors import ConfigError, FleetRecError, LostRankError

EXIT_FAILED = 1
EXIT_WRONG_CONFIG = 2
EXIT_RETRY = 75  # EX_TEMPFAIL of sysexits.h: a launcher may start all ranks again
EXIT_INTERRUPTED = 130

app = typer.Typer(
    name="fleetrec",
    help="Train recommendation models from a config file.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
models_app = typer.Typer(invoke_without_command=True)
app.add_typer(models_app, name="models")
app.add_typer(table_app, name="table")
data_app = typer.Typer(help="Show data as a model gets it.", no_args_is_help=True)
app.add_typer(data_app, name="data")
app.add_typer(init_app)
app.add_typer(pipeline_app)
app.add_typer(checkpoint_app, name="checkpoint")
app.add_typer(launch_app)
app.add_typer(plan_app)
app.add_typer(online_app)
app.add_typer(model_app)
app.add_typer(recall_app)
app.add_typer(report_app)
app.add_typer(serve_app)
app.add_typer(submit_app)
app.add_typer(job_app, name="job")

JOB_HELP = "A YAML job, a pipeline (.config), a folder that holds one, or a model: rank/dnn."
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "-o", "--override", help="Change a key, e.g. runner.single_cpu_train.epochs=2. Repeatable."
    ),
]


@app.command()
def run(
    *,
    model: Annotated[str, typer.Option("-m", "--model", help=JOB_HELP)],
    backend: Annotated[
        Path | None,
        typer.Option(
            "-b",
            "--backend",
            help="backend.yaml of a cluster: runners of class cluster_train are submitted to it.",
        ),
    ] = None,
    override: Overrides = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", "--continue_train", help="Resume from the last checkpoint of this run."
        ),
    ] = False,
    log_dir: Annotated[
        Path | None,
        typer.Option(help="Folder for run folders and logs of processes; by default logs."),
    ] = None,
    only: OnlyOption = None,
) -> None:
    """Run the runners of ``mode`` in order, or train a pipeline.

    Example: fleetrec run -m fleetrec.models.rank.dnn -o runner.single_cpu_train.epochs=2
    """
    from fleetrec.cli.run import RunRequest, run_command

    run_command(
        RunRequest(model=model, overrides=override or (), log_dir=log_dir, only=only),
        backend=backend,
        resume=resume,
    )


@app.command()
def check(
    job: Annotated[str | None, typer.Argument(help=JOB_HELP)] = None,
    *,
    model: Annotated[
        str | None, typer.Option("-m", "--model", help="The same, as for run.")
    ] = None,
    override: Overrides = None,
) -> None:
    """Check a job file and the first samples of its data, without training.

    Example: fleetrec check rank/dnn
    """
    if (job is None) == (model is None):
        raise ConfigError(["check: expected one job, as an argument or with -m"])
    from fleetrec.cli.check import check_job

    check_job(job or model or "", overrides=override or ())


@app.command()
def new(
    folder: Annotated[Path, typer.Argument(help="The folder to create.")],
    *,
    source: Annotated[
        str, typer.Option("--from", help="The built-in model to start from.")
    ] = "rank/dnn",
) -> None:
    """Create a workspace from a built-in model.

    Example: fleetrec new my_model --from rank/dnn
    """
    from fleetrec.cli.new import new_workspace

    new_workspace(folder, source=source)


@app.command("serve-table")
def serve_table(
    checkpoint: Annotated[
        str, typer.Argument(help="A checkpoint: a folder such as increment_dnn/3, or a URL.")
    ],
    *,
    endpoint: Annotated[str, typer.Option(help="host:port to listen on.")] = "127.0.0.1:7000",
    phase: Annotated[
        str | None, typer.Option(help="The phase whose tables are served, if there are several.")
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="Serve metrics for Prometheus on this port of 127.0.0.1.")
    ] = None,
    tls_certificate: Annotated[Path | None, typer.Option(help="Serve with TLS (PEM).")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Key of the certificate (PEM).")] = None,
) -> None:
    """Serve the tables of a checkpoint read-only, until SIGINT or SIGTERM.

    Example: fleetrec serve-table increment_dnn/3 --endpoint 127.0.0.1:7000
    """
    from fleetrec.cli.serve_table import serve_table as serve
    from fleetrec.core.env import read_token
    from fleetrec.server.endpoint import Security

    security = Security(token=read_token(), certificate=tls_certificate, key=tls_key)
    serve(checkpoint, phase=phase, endpoint=endpoint, metrics_port=metrics_port, security=security)


@models_app.callback()
def models(
    context: typer.Context,
    *,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the built-in models.

    Example: fleetrec models --json
    """
    if context.invoked_subcommand is not None:
        return
    from fleetrec.cli.models import list_models

    list_models(as_json=json)


@models_app.command("list")
def models_list(
    *, json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False
) -> None:
    """List the built-in models.

    Example: fleetrec models list --json
    """
    from fleetrec.cli.models import list_models

    list_models(as_json=json)


@models_app.command("show")
def models_show(
    name: Annotated[str, typer.Argument(help="A built-in model, e.g. rank/deepfm.")],
) -> None:
    """Print inputs, outputs, parameters, hyper-parameters and paper of a built-in model.

    Example: fleetrec models show rank/deepfm
    """
    from fleetrec.cli.show_model import show_model

    show_model(name)


PathArgument = Annotated[
    str | None,
    typer.Argument(help="A file, folder, pattern or URL; by default the data_path of the job."),
]
ConfigOption = Annotated[
    str, typer.Option("--config", "-c", help="The job whose data set describes the format.")
]
DatasetOption = Annotated[
    str | None, typer.Option("--dataset", help="A data set of the job; by default the first.")
]


@data_app.command("head")
def data_head(
    path: PathArgument = None,
    *,
    config: ConfigOption,
    dataset: DatasetOption = None,
    num_rows: Annotated[int, typer.Option("-n", min=1, help="Number of samples.")] = 3,
) -> None:
    """Print the first samples, feature by feature.

    Example: fleetrec data head --config rank/dnn
    """
    from fleetrec.cli.data import show_head

    show_head(path, config=config, dataset=dataset, num_rows=num_rows)


@data_app.command("stats")
def data_stats(
    path: PathArgument = None,
    *,
    config: ConfigOption,
    dataset: DatasetOption = None,
    page: Annotated[Path | None, typer.Option("--html", help="Write a page with plots.")] = None,
) -> None:
    """Print coverage, number of unique ids, lengths and ranges of every feature.

    Example: fleetrec data stats --config rank/dnn --html data.html
    """
    from fleetrec.cli.data import show_stats

    show_stats(path, config=config, dataset=dataset, page=page)


@data_app.command("convert")
def data_convert(
    target: Annotated[Path, typer.Argument(help="The file to write.")],
    path: PathArgument = None,
    *,
    config: ConfigOption,
    dataset: DatasetOption = None,
    to: Annotated[str, typer.Option(help="slot_text, csv, parquet or arrow.")] = "parquet",
) -> None:
    """Write a data set in another format; reading it gives the same batches.

    Example: fleetrec data convert clicks.parquet --config rank/dnn
    """
    from fleetrec.cli.data import convert_data

    convert_data(path, target, config=config, dataset=dataset, to=to)


def _version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"fleetrec {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    _version_wanted: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=lambda v: _version(wanted=v),
            is_eager=True,
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    """Train recommendation models from a config file."""


def main(verb: str | None = None) -> NoReturn:
    """Run the command line; ``verb`` is given by ``python -m fleetrec.<verb>``."""
    arguments = sys.argv[1:] if verb is None else [verb, *sys.argv[1:]]
    try:
        app(arguments, prog_name="fleetrec")
    except ConfigError as error:
        for problem in error.problems:
            typer.echo(problem, err=True)
        sys.exit(EXIT_WRONG_CONFIG)
    except LostRankError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(EXIT_RETRY)
    except (FleetRecError, OSError) as error:  # a full disk, a path that cannot be written
        typer.echo(f"error: {error}", err=True)
        sys.exit(EXIT_FAILED)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except Exception as error:
        from fleetrec.cli.user_traceback import user_traceback

        lines = user_traceback(error)
        if not lines:
            raise  # a fault of FleetRec
        typer.echo("\n".join(lines), err=True)
        sys.exit(EXIT_FAILED)
    sys.exit(0)
