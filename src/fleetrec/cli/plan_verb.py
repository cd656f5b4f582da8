"""``fleetrec plan``: its arguments; the work is done in other modules."""

from typing import Annotated

import typer

from fleetrec.embedding.placement import Placement

plan_app = typer.Typer()


@plan_app.command("plan")
def plan(  # noqa: PLR0913
    config: Annotated[
        str, typer.Argument(help="A job as for run, or a pipeline, which ends in .config.")
    ],
    *,
    ranks: Annotated[int, typer.Option(min=1, max=1024, help="Number of ranks.")],
    memory: Annotated[
        str | None, typer.Option(help="Memory of a rank, as in 80GB; an error if it needs more.")
    ] = None,
    bandwidth: Annotated[
        str,
        typer.Option(help="Network bandwidth of a rank per second: 25Gb (bits) or 3GB (bytes)."),
    ] = "25Gb",
    latency: Annotated[str, typer.Option(help="Latency of a message.")] = "50us",
    placement: Annotated[
        Placement | None,
        typer.Option(help="Placement of tables; by default that of the job, or auto."),
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="Number of samples to read.")] = 50000,
    override: Annotated[
        list[str] | None,
        typer.Option("-o", "--override", help="Change a key of the job. Repeatable."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print the placement of tables on a number of ranks, the time of a step, and how it scales.

    Example: fleetrec plan rank/dnn --ranks 8 --memory 64GB
    """
    from fleetrec.cli.plan import PlanRequest, show_plan

    show_plan(
        PlanRequest(
            config=config,
            num_ranks=ranks,
            memory=memory,
            bandwidth=bandwidth,
            latency=latency,
            placement=placement,
            max_samples=samples,
            overrides=override or (),
        ),
        as_json=json,
    )
