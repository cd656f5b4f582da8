"""Batches in order, parsed ahead of the training loop by threads that hold no GIL."""

import contextlib
import dataclasses
import functools
import queue
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

from fleetrec.config.job import DatasetOptions
from fleetrec.core.batch import Batch, Inputs
from fleetrec.core.cursor import Cursor
from fleetrec.core.event_time import event_time_of
from fleetrec.data.files import DataFile, list_files, shuffled_files
from fleetrec.data.lines import LineBatch, line_batches
from fleetrec.data.slot_text import ParsedBatch, SlotReport, SlotTextDecoder

QUEUED_PER_THREAD = 4


class Loader:
    """Reads the files of a data set, epoch by epoch."""

    def __init__(self, options: DatasetOptions, *, seed: int) -> None:
        self._options = options
        self._seed = seed
        self._decoder = SlotTextDecoder(options)
        self.files = list_files(options.data_path)
        self.report = SlotReport(options)

    @property
    def inputs(self) -> Inputs:
        """Return the features that the batches hold."""
        return self._decoder.inputs

    @contextlib.contextmanager
    def epoch(self, epoch: int, *, start: Cursor | None = None) -> Iterator[Iterator[Batch]]:
        """Give the batches of one epoch from ``start`` on; leaving the block stops the threads."""
        lines = line_batches(
            self._order(epoch), batch_size=self._options.batch_size, start=start or Cursor()
        )
        decode = functools.partial(self._decoder.decode, event_time=event_time_of(epoch))
        with _Prefetcher(lines, decode, num_threads=self._options.thread_num) as parsed:
            yield self._counted(parsed)

    def _order(self, epoch: int) -> tuple[DataFile, ...]:
        if not self._options.shuffle_files:
            return self.files
        return shuffled_files(self.files, seed=self._seed, epoch=epoch)

    def _counted(self, parsed: Iterator[ParsedBatch]) -> Iterator[Batch]:
        for item in parsed:
            self.report.add(item.slots)
            yield item.batch


@dataclasses.dataclass(frozen=True, slots=True)
class _End:
    """The last thing in the queue: reading is over, well or not."""

    error: BaseException | None = None


class _Prefetcher:
    """One thread reads, ``num_threads`` parse, the caller receives in order."""

    def __init__(
        self,
        lines: Generator[LineBatch],
        decode: Callable[[LineBatch], ParsedBatch],
        *,
        num_threads: int,
    ) -> None:
        self._lines = lines
        self._decode = decode
        self._parsers = ThreadPoolExecutor(num_threads, thread_name_prefix="fleetrec-parse")
        self._queue: queue.Queue[Future[ParsedBatch] | _End] = queue.Queue(
            QUEUED_PER_THREAD * num_threads
        )
        self._stopping = threading.Event()
        self._reader = threading.Thread(target=self._read, name="fleetrec-read", daemon=True)

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        while self._reader.is_alive():  # it may be waiting for room in the queue
            with contextlib.suppress(queue.Empty):
                self._queue.get(timeout=0.01)
        self._reader.join()
        self._lines.close()
        self._parsers.shutdown(cancel_futures=True)

    def __iter__(self) -> Iterator[ParsedBatch]:
        return self

    def __next__(self) -> ParsedBatch:
        if self._stopping.is_set():
            raise RuntimeError("the epoch has been left; read its batches inside the block")
        item = self._queue.get()
        if isinstance(item, _End):
            self._queue.put(item)
            if item.error is not None:
                raise item.error
            raise StopIteration
        return item.result()

    def _read(self) -> None:
        end = _End()
        try:
            for lines in self._lines:
                if self._stopping.is_set():
                    return
                self._queue.put(self._parsers.submit(self._decode, lines))
        except Exception as error:  # noqa: BLE001 - raised again in __next__
            end = _End(error)
        self._queue.put(end)
