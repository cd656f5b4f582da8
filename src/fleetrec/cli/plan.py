"""``fleetrec plan``: placement of tables, memory, traffic and speed."""

import dataclasses
import json
import time
from collections.abc import Sequence

import typer
from rich.console import Console
from rich.table import Table

from fleetrec.cli.job import load_requested
from fleetrec.config.job import RunOptions
from fleetrec.config.load import JobRequest
from fleetrec.config.processes import Processes
from fleetrec.core.errors import ConfigError, UnavailableError
from fleetrec.embedding.placement import Placement
from fleetrec.planning.cost import Network, Scale, scaling
from fleetrec.planning.memory import Memory, advice, rank_memory
from fleetrec.planning.study import Studied, study
from fleetrec.planning.traffic import Traffic, step_traffic
from fleetrec.planning.units import (
    bytes_of,
    bytes_per_s_of,
    bytes_text,
    seconds_of,
    seconds_text,
)

MIN_WIDTH = 120  # of tables, where a terminal does not say
MOST_RANKS = 256  # upper end of the scaling table, unless --ranks is larger


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """The arguments of the command."""

    config: str
    num_ranks: int
    memory: str | None
    bandwidth: str
    latency: str
    placement: Placement | None
    max_samples: int
    overrides: Sequence[str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that is printed."""

    studied: Studied
    memory: Memory
    traffic: Traffic
    scales: Sequence[Scale]

    def scale(self, num_ranks: int) -> Scale:
        """Return the plan for a number of ranks."""
        return next(scale for scale in self.scales if scale.num_ranks == num_ranks)


def show_plan(request: PlanRequest, *, as_json: bool) -> None:
    """Print the plan; raise an error if a rank needs more memory than it has."""
    limit = None if request.memory is None else bytes_of(request.memory, option="--memory")
    network = Network(
        bytes_per_s=bytes_per_s_of(request.bandwidth, option="--bandwidth"),
        latency_s=seconds_of(request.latency, option="--latency"),
    )
    run = _training_run(request)
    studied = study(
        run,
        placement=request.placement or run.cluster.placement,
        max_samples=request.max_samples,
        clock=time.perf_counter,
    )
    plan = Plan(
        studied=studied,
        memory=rank_memory(studied.workload, request.num_ranks),
        traffic=step_traffic(studied.workload, request.num_ranks),
        scales=scaling(studied.workload, studied.speeds, network, _counts(request.num_ranks)),
    )
    if as_json:
        typer.echo(json.dumps(_plain(plan, request.num_ranks), indent=1))
    else:
        _print(plan, request, limit)
    _check_memory(plan, request, limit)


def _training_run(request: PlanRequest) -> RunOptions:
    """Return the first training run of a job."""
    processes = Processes(num_workers=request.num_ranks, is_local=False)
    job = load_requested(
        JobRequest(source=request.config, overrides=request.overrides, processes=processes)
    )
    runs = [run for run in job.runs if run.kind == "train"]
    if not runs:
        raise ConfigError([f"{job.source}: expected a runner of class train in mode, got none"])
    return runs[0]


def _counts(num_ranks: int) -> list[int]:
    """Return the numbers of ranks to look at: powers of two, and the one that was asked for."""
    powers = [1 << power for power in range(max(num_ranks, MOST_RANKS).bit_length())]
    return sorted({num_ranks, *powers})


def _check_memory(plan: Plan, request: PlanRequest, limit: int | None) -> None:
    if limit is None:
        return
    what_to_do = advice(plan.studied.workload, num_ranks=request.num_ranks, limit_bytes=limit)
    if what_to_do is not None:
        raise UnavailableError(
            f"--memory {request.memory}: a rank of {request.num_ranks} needs "
            f"{bytes_text(plan.memory.total)}; {what_to_do}"
        )


def _plain(plan: Plan, num_ranks: int) -> dict[str, object]:
    """Return the plan as plain data."""
    return {
        "num_ranks": num_ranks,
        "num_samples": plan.studied.num_samples,
        "num_samples_of_all": plan.studied.num_samples_of_all,
        "workload": dataclasses.asdict(plan.studied.workload),
        "speeds": dataclasses.asdict(plan.studied.speeds),
        "memory_bytes": {**dataclasses.asdict(plan.memory), "total": plan.memory.total},
        "sent_bytes": {**dataclasses.asdict(plan.traffic), "total": plan.traffic.total},
        "scaling": [
            {**dataclasses.asdict(scale), "bottleneck": scale.step.bottleneck}
            for scale in plan.scales
        ],
    }


def _print(plan: Plan, request: PlanRequest, limit: int | None) -> None:
    workload = plan.studied.workload
    typer.echo(
        f"{request.config}: {request.num_ranks} ranks, each with {workload.batch_size} samples "
        "of a step"
    )
    console = Console(width=max(Console().width, MIN_WIDTH))
    if workload.tables:
        console.print(_tables(plan))
    if any(table.is_estimated for table in workload.tables):
        typer.echo(_about_estimates(plan.studied))
    others = {"tables": sum(plan.memory.tables.values()), **plan.memory.others}
    listed = ", ".join(f"{name} {bytes_text(size)}" for name, size in others.items())
    of_limit = "" if limit is None else f" of {bytes_text(limit)}"
    typer.echo(f"memory of a rank: {bytes_text(plan.memory.total)}{of_limit} ({listed})")
    typer.echo(
        f"sent by a rank in a step: {bytes_text(plan.traffic.total)} (exchange "
        f"{bytes_text(plan.traffic.exchange)}, all-reduce of {workload.num_parameters:,} "
        f"parameters {bytes_text(plan.traffic.all_reduce)})"
    )
    step = plan.scale(request.num_ranks).step
    parts = ", ".join(
        f"{name.replace('_', '-')} {seconds_text(seconds)}" for name, seconds in step.parts.items()
    )
    typer.echo(f"step: {seconds_text(step.total)} ({parts}); bottleneck: {step.bottleneck}")
    console.print(_scaling(plan, request.num_ranks))


def _about_estimates(studied: Studied) -> str:
    if studied.num_samples == studied.num_samples_of_all:
        return f"~: different ids of all {studied.num_samples:,} samples"
    return (
        f"~: estimated by the ids of {studied.num_samples:,} samples, of about "
        f"{studied.num_samples_of_all:,}"
    )


def _tables(plan: Plan) -> Table:
    table = Table("table", box=None, header_style="bold")
    for heading in ("rows", "width", "state", "placement", "ids", "different", "memory", "sent"):
        table.add_column(heading, justify="right")
    for one in plan.studied.workload.tables:
        table.add_row(
            one.name,
            f"{'~' if one.is_estimated else ''}{one.num_rows:,}",
            str(one.dim),
            str(one.num_state),
            "replicated" if one.is_replicated else "sharded",
            f"{one.ids_per_batch:,.0f}",
            f"{one.different_ids_per_batch:,.0f}",
            bytes_text(plan.memory.tables[one.name]),
            bytes_text(plan.traffic.tables[one.name]),
        )
    return table


def _scaling(plan: Plan, num_ranks: int) -> Table:
    table = Table(box=None, header_style="bold")
    for heading in ("ranks", "samples/s", "efficiency", "step", "bottleneck", "memory"):
        table.add_column(heading, justify="right")
    for scale in plan.scales:
        table.add_row(
            str(scale.num_ranks),
            f"{scale.samples_per_s:,.0f}",
            f"{scale.efficiency:.0%}",
            seconds_text(scale.step.total),
            scale.step.bottleneck.replace("_", "-"),
            bytes_text(rank_memory(plan.studied.workload, scale.num_ranks).total),
            style="bold" if scale.num_ranks == num_ranks else None,
        )
    return table
