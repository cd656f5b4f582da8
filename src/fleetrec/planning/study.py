"""Measures the workload of a run and the speed of this machine."""

import contextlib
import dataclasses
import itertools
import statistics
from collections.abc import Iterator

import torch

from fleetrec.config.job import DatasetOptions, DeviceOptions, PhaseOptions, RunOptions
from fleetrec.core.cursor import Cursor
from fleetrec.data.loader import Loader
from fleetrec.data.plan import DataShard, plan_slices
from fleetrec.data.source import build_source
from fleetrec.data.stream import raw_batches
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.placement import Placement, is_replicated
from fleetrec.embedding.table import TableConfig
from fleetrec.parallel.held_state import HeldState
from fleetrec.parallel.solo import SoloGroup
from fleetrec.planning.cost import Speeds
from fleetrec.planning.measure import Measured, measure
from fleetrec.planning.sample import Clock, Sample, take_sample
from fleetrec.planning.workload import TableLoad, Workload
from fleetrec.train.phase import Phase, build_phase

NUM_TIMED = 16  # batches that are trained on


@dataclasses.dataclass(frozen=True, kw_only=True)
class Studied:
    """Results of measuring a run on this machine."""

    workload: Workload
    speeds: Speeds
    num_samples: int  # looked at
    num_samples_of_all: int


def study(run: RunOptions, *, placement: Placement, max_samples: int, clock: Clock) -> Studied:
    """Sample the data of a run and train on a few batches; writes nothing."""
    phase = open_phase(run)
    sample = look_at_data(phase, max_samples=max_samples, clock=clock)
    assert isinstance(phase.state, HeldState)
    measured = measure(phase.model, phase.stepper, phase.state, sample.batches, clock=clock)
    workload = Workload(
        batch_size=phase.options.dataset.batch_size,
        tables=table_loads(phase, sample, placement=placement),
        num_parameters=sum(p.numel() for p in phase.model.parameters() if p.requires_grad),
        dense_bytes=measured.dense_bytes,
        batch_bytes=measured.batch_bytes,
    )
    return Studied(
        workload=workload,
        speeds=_speeds(
            workload,
            sample,
            measured,
            scan_per_sample=_scan_s_per_sample(phase.loader, run.phases[0].dataset, clock),
        ),
        num_samples=sample.num_samples,
        num_samples_of_all=sample.num_samples_of_all,
    )


def open_phase(run: RunOptions) -> Phase:
    """Build the phase that several ranks would train, for one process on the CPU."""
    options = _as_read(run.phases[0])
    run = run.model_copy(update={"device": DeviceOptions()})
    return build_phase(options, run, SoloGroup(torch.device("cpu")))


def look_at_data(phase: Phase, *, max_samples: int, clock: Clock) -> Sample:
    """Read the beginning of the data."""
    with phase.loader.epoch(0) as batches:
        return take_sample(
            batches,
            phase.model.embedding_collection(),
            max_samples=max_samples,
            num_kept=NUM_TIMED,
            clock=clock,
        )


def table_loads(phase: Phase, sample: Sample, *, placement: Placement) -> tuple[TableLoad, ...]:
    """Return the load of a batch on every table, and the estimated sizes of tables."""
    assert isinstance(phase.state, HeldState)
    stores = phase.state.stores
    return tuple(
        _table_load(table, sample, stores[table.name], placement=placement)
        for table in phase.model.embedding_collection().tables.values()
    )


def _as_read(options: PhaseOptions) -> PhaseOptions:
    """Return options that read the data in order: an in-memory data set would be read whole."""
    dataset = options.dataset.model_copy(update={"kind": "DataLoader"})
    return options.model_copy(update={"dataset": dataset})


def _scan_s_per_sample(loader: Loader, dataset: DatasetOptions, clock: Clock) -> float:
    """Return the time to find the rows of a sample; each rank does it for the samples of all ranks.

    If rows must be decoded before they can be distributed, it is the time of reading them.
    """
    source = build_source(dataset, loader.files)
    changes_row_count = (
        dataset.filters or dataset.sample_ratio < 1 or dataset.bad_rows.policy == "skip"
    )
    if (
        changes_row_count
        or dataset.shuffle_rows
        or dataset.kind != "DataLoader"
        or source.rows_map_to_many_samples
        or source.reads_in_python
    ):
        with loader.epoch(0) as batches:
            return _s_per_item(batches, clock) / dataset.batch_size
    slices = plan_slices(loader.files, source, DataShard())
    rows = raw_batches(source, slices, batch_size=dataset.batch_size, start=Cursor())
    with contextlib.closing(rows):
        return _s_per_item(rows, clock) / dataset.batch_size


def _s_per_item(items: Iterator[object], clock: Clock) -> float:
    """Return the usual time between two items; the first waits for files to be opened."""
    times = [clock()]
    times += [clock() for _ in itertools.islice(items, NUM_TIMED)]
    waits = [after - before for before, after in itertools.pairwise(times)]
    return statistics.median(waits[1:] or waits)


def _table_load(
    table: TableConfig, sample: Sample, store: NativeStore, *, placement: Placement
) -> TableLoad:
    seen = sample.tables[table.name]
    num_rows = table.num_rows or sample.num_rows(table.name)
    return TableLoad(
        name=table.name,
        dim=table.dim,
        num_state=store.snapshot()["state"].shape[1],
        num_rows=min(num_rows, table.eviction.max_rows or num_rows),
        is_estimated=table.num_rows is None,
        is_replicated=is_replicated(table, placement),
        ids_per_batch=seen.ids_per_batch,
        different_ids_per_batch=seen.different_ids_per_batch,
    )


def _speeds(
    workload: Workload, sample: Sample, measured: Measured, *, scan_per_sample: float
) -> Speeds:
    num_ids = sum(table.ids_per_batch for table in workload.tables)
    return Speeds(
        read_per_sample=sample.read_s_per_sample,
        scan_per_sample=scan_per_sample,
        lookup_per_id=measured.lookup_per_batch / num_ids if num_ids else 0.0,
        row=measured.row,
        compute_per_batch=measured.compute_per_batch,
    )
