"""The time of a step, and how it changes with the number of ranks.

The parts of a step are assumed not to overlap. docs/decisions/0008-cost-model.md has the
assumptions.
"""

import dataclasses
from collections.abc import Iterable
from typing import Literal

from fleetrec.planning.traffic import step_traffic
from fleetrec.planning.workload import Workload

Part = Literal["read", "lookup", "exchange", "compute", "all_reduce"]

AGREEMENT_ROUNDS = 1
TABLE_ROUNDS = 3  # counts, ids and gradients of all tables: three messages, one after the other
SHARDED_ROUNDS = 1  # rows, if some table is sharded


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """Times of the work of one rank, in seconds.

    It scans the samples of all ranks, ahead of the training loop, and reads its own.
    """

    read_per_sample: float
    scan_per_sample: float
    lookup_per_id: float  # find, pool, and apply the gradient
    row: float  # to read and update one row for another rank
    compute_per_batch: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The network between ranks: bandwidth of a rank, and latency of a message."""

    bytes_per_s: float
    latency_s: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Seconds of one step, by part."""

    read: float
    lookup: float
    exchange: float
    compute: float
    all_reduce: float

    @property
    def parts(self) -> dict[Part, float]:
        """Return the parts by name, in their order."""
        return {
            "read": self.read,
            "lookup": self.lookup,
            "exchange": self.exchange,
            "compute": self.compute,
            "all_reduce": self.all_reduce,
        }

    @property
    def total(self) -> float:
        """The whole step."""
        return sum(self.parts.values())

    @property
    def bottleneck(self) -> Part:
        """The part that takes longest."""
        return max(self.parts, key=lambda part: self.parts[part])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The step of a number of ranks."""

    num_ranks: int
    step: StepTime
    samples_per_s: float
    efficiency: float  # speed-up divided by the number of ranks


def step_time(workload: Workload, speeds: Speeds, network: Network, num_ranks: int) -> StepTime:
    """Return the time of one step of this number of ranks."""
    num_ids = sum(table.ids_per_batch for table in workload.tables)
    lookup = speeds.lookup_per_id * num_ids + speeds.row * _rows_for_others(workload, num_ranks)
    step = StepTime(
        read=speeds.read_per_sample * workload.batch_size,
        lookup=lookup,
        exchange=_exchange_s(workload, network, num_ranks),
        compute=speeds.compute_per_batch,
        all_reduce=_all_reduce_s(workload, network, num_ranks),
    )
    scan = speeds.scan_per_sample * workload.batch_size * num_ranks
    late = max(0.0, scan - step.total)  # the scan of the next step takes longer than this one
    return dataclasses.replace(step, read=step.read + late)


def scaling(
    workload: Workload, speeds: Speeds, network: Network, counts: Iterable[int]
) -> list[Scale]:
    """Return the scaling over these numbers of ranks; every rank has its own batch."""
    alone = workload.batch_size / step_time(workload, speeds, network, 1).total
    scales = []
    for num_ranks in counts:
        step = step_time(workload, speeds, network, num_ranks)
        samples_per_s = num_ranks * workload.batch_size / step.total
        scales.append(
            Scale(
                num_ranks=num_ranks,
                step=step,
                samples_per_s=samples_per_s,
                efficiency=samples_per_s / (num_ranks * alone),
            )
        )
    return scales


def _rows_for_others(workload: Workload, num_ranks: int) -> float:
    """Return the number of rows that a rank reads and updates for other ranks."""
    others = num_ranks - 1
    return sum(
        table.different_ids_per_batch * (others if table.is_replicated else others / num_ranks)
        for table in workload.tables
    )


def _exchange_s(workload: Workload, network: Network, num_ranks: int) -> float:
    if num_ranks == 1:
        return 0.0
    rounds = AGREEMENT_ROUNDS + (TABLE_ROUNDS if workload.tables else 0)
    if any(not table.is_replicated for table in workload.tables):
        rounds += SHARDED_ROUNDS
    sent = step_traffic(workload, num_ranks).exchange
    return rounds * network.latency_s + sent / network.bytes_per_s


def _all_reduce_s(workload: Workload, network: Network, num_ranks: int) -> float:
    """Return the time of a ring all-reduce: 2 (ranks - 1) steps, one after the other."""
    if num_ranks == 1 or workload.num_parameters == 0:
        return 0.0
    sent = step_traffic(workload, num_ranks).all_reduce
    return 2 * (num_ranks - 1) * network.latency_s + sent / network.bytes_per_s
