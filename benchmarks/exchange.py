"""What ranks send to each other in a step, beside what ``fleetrec plan`` says they will.

Bytes do not depend on how busy a machine is, so this is the part of a plan that can be held to.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Protocol

from benchmarks.figure import Figure
from benchmarks.job import dnn_run
from fleetrec.config.job import ClusterOptions, RunOptions
from fleetrec.planning.study import look_at_data, open_phase, table_loads
from fleetrec.planning.traffic import table_bytes

RANKS = (2, 4)
NUM_BATCHES = 32  # that a plan looks at
TARGET = 0.9  # the smaller of planned and counted bytes over the larger


class Counted(Protocol):
    """What the strategy of one rank has counted of its exchange of rows."""

    @property
    def num_steps(self) -> int:
        """Steps that were made."""
        ...

    @property
    def num_bytes(self) -> int:
        """Bytes that were sent to other ranks."""
        ...

    @property
    def seconds(self) -> float:
        """Time that was spent on it."""
        ...


Train = Callable[[RunOptions], Sequence[Counted]]  # on all ranks; gives what each has counted


def measure(part: Path, *, batch_size: int, train: Train) -> list[Figure]:
    """Train on one part of the data with each placement and number of ranks."""
    placements: tuple[Literal["replicated", "sharded"], ...] = ("replicated", "sharded")
    figures = []
    for placement in placements:
        for num_ranks in RANKS:
            cluster = ClusterOptions(
                num_workers=num_ranks, fleet_mode="collective", placement=placement
            )
            run = dnn_run(part, batch_size=batch_size, cluster=cluster)
            figures += compare(run, train(run), name=f"{placement} on {num_ranks} ranks")
    return figures


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
        Figure(name=f"exchange, {name}: a step waits", unit="s", values=[waited]),
    ]
