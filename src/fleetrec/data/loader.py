"""Batches of a data set, epoch by epoch, prepared ahead of the training loop."""

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Callable, Generator, Iterator, Sequence

import torch

from fleetrec.config.input_rules import InputRules
from fleetrec.config.job import DatasetOptions
from fleetrec.core.batch import Batch, Inputs
from fleetrec.core.cursor import Cursor
from fleetrec.core.errors import DataError
from fleetrec.core.event_time import event_time_of
from fleetrec.data.decode import Decoded, Decoder, check_filters, id_maps_of
from fleetrec.data.files import DataFile, list_files, shuffled_files
from fleetrec.data.memory import MemoryRows
from fleetrec.data.plan import DataShard, plan_slices
from fleetrec.data.prefetch import (
    QUEUED_PER_THREAD,
    Background,
    BackgroundProcess,
    map_ahead,
    map_on_demand,
)
from fleetrec.data.slot_report import SlotReport
from fleetrec.data.source import FileSlice, Source, build_source
from fleetrec.data.stage import NoStage, Stage, stage_rng
from fleetrec.data.stages.item_negatives import ItemNegatives
from fleetrec.data.stream import RawBatch, portion, raw_batches
from fleetrec.data.windows import Windows

logger = logging.getLogger(__name__)

ONE_WORKER = DataShard()
NUM_FAULTS_SHOWN = 10


class Loader:
    """Reads the files of a data set, or one worker's shard of them.

    ``files`` replaces the files of the paths in the options. Samples in memory are shuffled for
    every epoch, unless ``shuffle`` is False: then the caller orders them. ``stage`` adds further
    sides to the batches.

    Without a ``thread_num``, rows are decoded between the steps, text by all compute threads: these
    synchronise in each part of a step, and a thread that decoded ahead would take a core from one
    of them while all others wait for it. If another device computes (``decode_ahead``), one thread
    decodes ahead.
    """

    def __init__(  # noqa: PLR0913 (what is read, by whom, and what is made of it)
        self,
        options: DatasetOptions,
        *,
        seed: int,
        shard: DataShard = ONE_WORKER,
        files: Sequence[DataFile] | None = None,
        shuffle: bool = True,
        decode_ahead: bool = False,
        stage: Stage | None = None,
    ) -> None:
        self._options = options
        self._seed = seed
        self._stage = stage or _stage_of(options)
        self._shard = shard
        if files is None:
            if not options.data_path:
                raise DataError(f"data set {options.name}: it has no data_path to read from")
            paths = (options.data_path, *options.more_paths)
            client = options.stream_options
            files = [file for path in paths for file in list_files(path, client)]
        self.files = tuple(files)
        source = build_source(options, self.files)
        check_filters(source)
        weight = options.sample_weight
        if weight is not None and source.inputs.dense.get(weight) != (1,):
            raise DataError(
                f"data set {options.name}: sample_weight: expected a dense feature of width 1, "
                f"got {weight!r}; known: {', '.join(source.inputs.dense) or 'none'}"
            )
        self._decoder = Decoder(source=source, seed=seed, id_maps=id_maps_of(source))
        self._decodes_between_steps = (
            options.thread_num is None
            and options.kind == "DataLoader"
            and not (source.decodes_in_python or source.reads_in_python)
            and not (decode_ahead or self._decoder.changes_row_count or options.shuffle_rows)
        )
        if self._decodes_between_steps:
            source.num_threads = torch.get_num_threads()
        self._slices = plan_slices(self.files, source, shard)
        self._rows_per_step = options.batch_size * (shard.count if shard.by == "batch" else 1)
        # A batch is cut into portions before decoding, unless its samples are known only after it.
        needs_all = shard.by == "batch" and (
            self._decoder.changes_row_count
            or options.shuffle_rows > 0
            or options.kind != "DataLoader"
            or source.reads_in_python
        )
        self._shard_of_samples = shard if needs_all else ONE_WORKER
        self._shard_of_rows = shard if shard.by == "batch" and not needs_all else ONE_WORKER
        self._memory: MemoryRows | None = None
        self._shuffle = shuffle
        self._num_bad_rows = 0
        self.report = SlotReport(source.options)

    @property
    def name(self) -> str:
        """Return the name of the data set."""
        return self._options.name

    @property
    def inputs(self) -> Inputs:
        """Return the features of the batches, without the weight of the samples."""
        inputs = self._decoder.source.inputs
        dense = {n: shape for n, shape in inputs.dense.items() if n != self._options.sample_weight}
        return dataclasses.replace(inputs, dense=dense, sides=dict(self._stage.inputs))

    @property
    def input_rules(self) -> InputRules:
        """Return how columns become the features of the batches."""
        return self._decoder.source.input_rules

    @contextlib.contextmanager
    def epoch(
        self, epoch: int, *, start: Cursor | None = None, event_time: int | None = None
    ) -> Iterator[Iterator[Batch]]:
        """Yield an iterator of the batches of one epoch; leaving the block stops the threads.

        ``event_time`` is the time of samples that have none; by default, every epoch counts as a
        day.
        """
        start = start or Cursor()
        with contextlib.ExitStack() as stack:
            if self._options.kind == "InMemoryDataset":
                decoded = self._from_memory(epoch, start=start)
            else:
                decoded = stack.enter_context(self._decoded(epoch, start=start))
                if self._decoder.changes_row_count or self._options.shuffle_rows:
                    decoded = self._windows(decoded, epoch, start=start)
                    ahead = Background(decoded, num_ahead=QUEUED_PER_THREAD, name="shuffle")
                    decoded = stack.enter_context(ahead)
            if self._shard_of_samples.count > 1:
                decoded = map(self._portion, decoded)
            if not isinstance(self._stage, NoStage):
                decoded = stack.enter_context(self._staged(decoded, epoch))
            if event_time is None:
                event_time = event_time_of(epoch)
            yield self._batches(decoded, event_time=event_time)

    def load_into_memory(self) -> MemoryRows:
        """Read everything; later epochs do not read again."""
        if self._memory is None:
            with self._decoded(0, start=Cursor()) as decoded:
                self._memory = MemoryRows.gather(
                    map(self._count_bad_rows, decoded), inputs=self._decoder.source.inputs
                )
        return self._memory

    def _decoded(
        self, epoch: int, *, start: Cursor
    ) -> contextlib.AbstractContextManager[Iterator[Decoded]]:
        slices = self._order(epoch)
        source, num_threads = self._decoder.source, self._options.thread_num or 1
        if self._options.kind != "DataLoader" or (source.reads_in_python and num_threads > 1):
            return self._round_robin(slices, epoch, start=start)
        decode = functools.partial(self._decoder, epoch=epoch)
        raw = _own_rows(
            source,
            slices,
            rows_per_step=self._rows_per_step,
            shard=self._shard_of_rows,
            start=start,
        )
        if self._decodes_between_steps:
            return map_on_demand(decode, raw)
        return map_ahead(
            decode,
            raw,
            num_threads=num_threads,
            in_processes=source.decodes_in_python and num_threads > 1,
        )

    @contextlib.contextmanager
    def _round_robin(
        self, slices: Sequence[FileSlice], epoch: int, *, start: Cursor
    ) -> Iterator[Iterator[Decoded]]:
        """Read files with several readers and take their batches in turn, so the order is fixed."""
        num_readers = max(1, min(self._options.thread_num or 1, len(slices)))
        if start.readers and len(start.readers) != num_readers:
            raise DataError(
                f"data set {self._options.name}: the cursor is of {len(start.readers)} readers, "
                f"this run has {num_readers}; keep thread_num when a run is resumed"
            )
        cursors = start.readers or (Cursor(),) * num_readers
        with contextlib.ExitStack() as stack:
            readers: list[Iterator[Decoded]] = []
            for i, cursor in enumerate(cursors):
                make = functools.partial(
                    _read_and_decode,
                    self._decoder,
                    slices[i::num_readers],
                    batch_size=self._rows_per_step,
                    epoch=epoch,
                    start=cursor,
                )
                readers.append(stack.enter_context(self._in_background(make)))
            yield _take_turns(readers, dataclasses.replace(start, readers=cursors))

    def _in_background(
        self, make: Callable[[], Generator[Decoded]]
    ) -> Background[Decoded] | BackgroundProcess[Decoded]:
        source = self._decoder.source
        if source.decodes_in_python or source.reads_in_python:
            return BackgroundProcess(make, num_ahead=QUEUED_PER_THREAD)
        return Background(make(), num_ahead=QUEUED_PER_THREAD, name="read")

    def _windows(
        self, decoded: Iterator[Decoded], epoch: int, *, start: Cursor
    ) -> Generator[Decoded]:
        windows = Windows(
            batch_size=self._rows_per_step,
            num_rows=self._options.shuffle_rows,
            seed=self._seed,
            epoch=epoch,
        )
        yield from windows.batches(decoded, start=start)

    def _from_memory(self, epoch: int, *, start: Cursor) -> Iterator[Decoded]:
        memory = self.load_into_memory()
        if self._shuffle:
            memory.shuffle(seed=self._seed, epoch=epoch)
        return memory.batches(batch_size=self._rows_per_step, start=start)

    def _staged(
        self, decoded: Iterator[Decoded], epoch: int
    ) -> contextlib.AbstractContextManager[Iterator[Decoded]]:
        """Run the stage over final batches, ahead of the training loop if decoding is."""
        work = functools.partial(self._run_stage, epoch=epoch)
        if self._decodes_between_steps:
            return contextlib.nullcontext(map(work, decoded))
        num_threads = self._options.thread_num or 1
        items = (item for item in decoded)
        return map_ahead(work, items, num_threads=num_threads, in_processes=False)

    def _run_stage(self, decoded: Decoded, *, epoch: int) -> Decoded:
        if not decoded.block.num_samples:
            return decoded
        rng = stage_rng(decoded, seed=self._seed, epoch=epoch, shard=self._shard)
        return dataclasses.replace(decoded, block=self._stage(decoded.block, rng))

    def _portion(self, decoded: Decoded) -> Decoded:
        shard = self._shard_of_samples
        return decoded.portion(index=shard.index, count=shard.count)

    def _order(self, epoch: int) -> tuple[FileSlice, ...]:
        if not self._options.shuffle_files:
            return self._slices
        return shuffled_files(self._slices, seed=self._seed, epoch=epoch)

    def _batches(self, decoded: Iterator[Decoded], *, event_time: int) -> Iterator[Batch]:
        for item in decoded:
            self._count_bad_rows(item)
            if not item.block.num_samples:
                continue
            dense = dict(item.block.dense)
            weight = self._options.sample_weight
            yield Batch(
                ids=item.block.ids,
                weights_B=None if weight is None else dense.pop(weight).flatten(),
                dense=dense,
                other_sides=item.block.sides,
                cursor=item.end,
                progress=item.progress,
                event_time=event_time,
            )

    def _count_bad_rows(self, decoded: Decoded) -> Decoded:
        """Count features and bad rows; raise if there are too many bad rows."""
        self.report.add(decoded.block.counts)
        for fault in decoded.faults:
            self._num_bad_rows += 1
            if self._num_bad_rows <= NUM_FAULTS_SHOWN:
                logger.warning("skipped: %s", fault)
            limit = self._options.bad_rows.limit
            if self._num_bad_rows > limit:
                raise DataError(f"more than {limit} bad rows (max_bad_rows); the last: {fault}")
        return decoded


def _stage_of(options: DatasetOptions) -> Stage:
    return NoStage() if options.sampler is None else ItemNegatives.open(options.sampler, options)


def _own_rows(
    source: Source,
    slices: Sequence[FileSlice],
    *,
    rows_per_step: int,
    shard: DataShard,
    start: Cursor,
) -> Generator[RawBatch]:
    """Yield this worker's portion of every batch of ``rows_per_step`` rows, if it has one."""
    raw = raw_batches(source, slices, batch_size=rows_per_step, start=start)
    if shard.count == 1:
        yield from raw
        return
    for whole in raw:
        own = portion(whole, index=shard.index, count=shard.count)
        if own.chunks:
            yield own


def _read_and_decode(
    decoder: Decoder, slices: Sequence[FileSlice], *, batch_size: int, epoch: int, start: Cursor
) -> Generator[Decoded]:
    for raw in raw_batches(decoder.source, slices, batch_size=batch_size, start=start):
        yield decoder(raw, epoch=epoch)


def _take_turns(readers: Sequence[Iterator[Decoded]], start: Cursor) -> Iterator[Decoded]:
    """Yield a batch of each reader in turn, skipping those that have no more."""
    cursor, progress = start, [0.0] * len(readers)
    waiting = list(range(len(readers)))
    while waiting:
        turn = min(waiting, key=lambda i: (i - cursor.turn) % len(readers))
        decoded = next(readers[turn], None)
        if decoded is None:
            waiting.remove(turn)
            progress[turn] = 1.0
            continue
        cursors = list(cursor.readers)
        cursors[turn] = decoded.end
        progress[turn] = decoded.progress
        end = Cursor(
            readers=tuple(cursors),
            turn=(turn + 1) % len(readers),
            samples=cursor.samples + decoded.block.num_samples,
        )
        yield dataclasses.replace(
            decoded, begin=cursor, end=end, progress=sum(progress) / len(readers)
        )
        cursor = end
