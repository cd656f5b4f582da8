"""From a run to what it asks of machines, and what this machine gives."""

import dataclasses

from fleetrec.config.job import DeviceOptions, PhaseOptions, RunOptions
from fleetrec.embedding.placement import Placement, is_replicated
from fleetrec.embedding.table import TableConfig
from fleetrec.parallel.single import SingleStrategy
from fleetrec.planning.cost import Speeds
from fleetrec.planning.measure import Measured, measure
from fleetrec.planning.sample import Clock, Sample, take_sample
from fleetrec.planning.workload import TableLoad, Workload
from fleetrec.train.phase import PhaseRun, build_phase

NUM_TIMED = 16  # batches that are trained on


@dataclasses.dataclass(frozen=True, kw_only=True)
class Studied:
    """What was found out about a run on this machine."""

    workload: Workload
    speeds: Speeds
    num_samples: int  # looked at
    num_samples_of_all: int


def study(run: RunOptions, *, placement: Placement, max_samples: int, clock: Clock) -> Studied:
    """Look at the data of a run, and train a little; writes nothing."""
    options = _as_read(run.phases[0])
    phase = build_phase(options, run.model_copy(update={"device": DeviceOptions()}))
    collection = phase.model.embedding_collection()
    with phase.loader.epoch(0) as batches:
        sample = take_sample(
            batches, collection, max_samples=max_samples, num_kept=NUM_TIMED, clock=clock
        )
    strategy = phase.strategy
    assert isinstance(strategy, SingleStrategy)
    measured = measure(phase.model, strategy, sample.batches, clock=clock)
    workload = Workload(
        batch_size=options.dataset.batch_size,
        tables=tuple(
            _table_load(table, sample, strategy, placement=placement)
            for table in collection.tables.values()
        ),
        num_parameters=_num_parameters(phase),
        dense_bytes=measured.dense_bytes,
        batch_bytes=measured.batch_bytes,
    )
    return Studied(
        workload=workload,
        speeds=_speeds(workload, sample, measured),
        num_samples=sample.num_samples,
        num_samples_of_all=sample.num_samples_of_all,
    )


def _as_read(options: PhaseOptions) -> PhaseOptions:
    """Let data be read in order: a data set in memory would be read whole."""
    dataset = options.dataset.model_copy(update={"kind": "DataLoader"})
    return options.model_copy(update={"dataset": dataset})


def _table_load(
    table: TableConfig, sample: Sample, strategy: SingleStrategy, *, placement: Placement
) -> TableLoad:
    seen = sample.tables[table.name]
    num_rows = table.num_rows or sample.num_rows(table.name)
    return TableLoad(
        name=table.name,
        dim=table.dim,
        num_state=strategy.stores[table.name].snapshot()["state"].shape[1],
        num_rows=min(num_rows, table.eviction.max_rows or num_rows),
        is_estimated=table.num_rows is None,
        is_replicated=is_replicated(table, placement),
        counts_clicks=table.counts_clicks,
        ids_per_batch=seen.ids_per_batch,
        different_ids_per_batch=seen.different_ids_per_batch,
    )


def _num_parameters(phase: PhaseRun) -> int:
    return sum(p.numel() for p in phase.model.parameters() if p.requires_grad)


def _speeds(workload: Workload, sample: Sample, measured: Measured) -> Speeds:
    num_ids = sum(table.ids_per_batch for table in workload.tables)
    return Speeds(
        read_per_sample=sample.read_s_per_sample,
        lookup_per_id=measured.lookup_per_batch / num_ids if num_ids else 0.0,
        row=measured.row,
        compute_per_batch=measured.compute_per_batch,
    )
