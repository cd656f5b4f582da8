"""What ranks send to each other in a step, and how long one takes, beside what a plan says.

Bytes do not depend on how busy a machine is, so they are the part of a plan that can be held to.
"""

import contextlib
import dataclasses
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import torch

from benchmarks.figure import Figure
from benchmarks.job import dnn_run
from fleetrec.cli.cluster import rank_job
from fleetrec.config.job import ClusterOptions, RunOptions
from fleetrec.launch.local import LocalLauncher, num_threads, run_job
from fleetrec.launch.supervisor import Policy
from fleetrec.planning.cost import Network, step_time
from fleetrec.planning.study import look_at_data, open_phase, study, table_loads
from fleetrec.planning.traffic import table_bytes

RANKS = (1, 2, 4)
LOOPBACK = Network(bytes_per_s=1e9, latency_s=2e-4)  # of one machine, by gloo
NUM_BATCHES = 32  # that a plan looks at
TARGET = 0.9  # the smaller of planned and counted bytes over the larger


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What the strategy of one rank has counted of its exchange of rows."""

    num_steps: int
    num_bytes: int  # sent to other ranks
    seconds: float  # of the exchange
    step_s: float = 0.0  # the usual time of a whole step


Train = Callable[[RunOptions], Sequence[Counted]]  # on all ranks; gives what each has counted


def train_on_ranks(run: RunOptions) -> list[Counted]:
    """Train as so many processes of this machine; see exchange_rank.py."""
    dataset, cluster = run.phases[0].dataset, run.cluster
    with tempfile.TemporaryDirectory(prefix="fleetrec-bench-") as name:
        folder = Path(name)
        asked = (str(dataset.data_path), str(dataset.batch_size), cluster.placement, name)
        command = (sys.executable, "-m", "benchmarks.exchange_rank", *asked)
        job = rank_job(command, num_ranks=cluster.num_workers)
        launcher = LocalLauncher(policy=Policy(max_restarts=0))
        with contextlib.closing(launcher.start(job, folder)) as running:
            outcome = run_job(running)
        if outcome.status != 0:
            raise RuntimeError(f"ranks of the exchange benchmark failed: {outcome}")
        return [
            Counted(**json.loads((folder / f"{rank}.json").read_text(encoding="utf-8")))
            for rank in range(cluster.num_workers)
        ]


def measure(part: Path, *, batch_size: int, train: Train = train_on_ranks) -> list[Figure]:
    """Train on one part of the data with each placement and number of ranks."""
    placements: tuple[Literal["replicated", "sharded"], ...] = ("replicated", "sharded")
    figures = []
    for placement in placements:
        for num_ranks in RANKS:
            cluster = ClusterOptions(
                num_workers=num_ranks, fleet_mode="collective", placement=placement
            )
            run = dnn_run(part, batch_size=batch_size, cluster=cluster)
            counted = train(run)
            name = f"{placement} on {num_ranks} ranks"
            if num_ranks > 1:
                figures += compare(run, counted, name=name)
            if placement == "sharded" and counted[0].step_s:
                figures.append(compare_times(run, counted, name=name))
    return figures


def compare_times(run: RunOptions, counted: Sequence[Counted], *, name: str) -> Figure:
    """Set how long a step took beside the plan, in which ranks share the processors."""
    num_ranks = len(counted)
    before = torch.get_num_threads()
    torch.set_num_threads(num_threads(num_ranks))
    try:
        num_samples = NUM_BATCHES * run.phases[0].dataset.batch_size
        studied = study(
            run,
            placement=run.cluster.placement,
            max_samples=num_samples,
            clock=time.perf_counter,
        )
    finally:
        torch.set_num_threads(before)
    planned = step_time(studied.workload, studied.speeds, LOOPBACK, num_ranks).total
    planned *= max(1.0, num_ranks / len(os.sched_getaffinity(0)))
    measured = statistics.median(one.step_s for one in counted)
    return Figure(
        name=f"exchange, {name}: a step, planned over measured",
        unit="us",
        values=[1e6 * measured],
        ratios=[planned / measured],
    )


def compare(run: RunOptions, counted: Sequence[Counted], *, name: str) -> list[Figure]:
    """Set what ranks have counted beside the plan of the same run."""
    phase = open_phase(run)
    num_samples = NUM_BATCHES * run.phases[0].dataset.batch_size
    sample = look_at_data(phase, max_samples=num_samples, clock=time.perf_counter)
    tables = table_loads(phase, sample, placement=run.cluster.placement)
    planned = sum(table_bytes(table, len(counted)) for table in tables)
    sent = statistics.mean(one.num_bytes / one.num_steps for one in counted)
    waited = statistics.mean(one.seconds / one.num_steps for one in counted)
    return [
        Figure(
            name=f"exchange, {name}: bytes a step and rank, as planned",
            unit="bytes",
            values=[sent],
            ratios=[min(sent, planned) / max(sent, planned)],
            target=TARGET,
        ),
        Figure(
            name=f"exchange, {name}: a step exchanges, of all its time",
            unit="us",
            values=[1e6 * waited],
            ratios=[waited / one.step_s for one in counted if one.step_s],
        ),
    ]
