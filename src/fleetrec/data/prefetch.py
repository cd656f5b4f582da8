"""Work ahead of the training loop, in threads or processes that can be stopped."""

import contextlib
import dataclasses
import multiprocessing
import queue
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Generic, Self, TypeVar

from fleetrec.core.errors import DataError

In = TypeVar("In")
Out = TypeVar("Out")

QUEUED_PER_THREAD = 4


@dataclasses.dataclass(frozen=True, slots=True)
class _End:
    """The last item of the queue, with the error if there was one."""

    error: BaseException | None = None


class Background(Generic[Out]):
    """Runs a generator in a thread of its own, a few items ahead of its reader."""

    def __init__(self, items: Generator[Out], *, num_ahead: int, name: str) -> None:
        self._items = items
        self._queue: queue.Queue[Out | _End] = queue.Queue(num_ahead)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"fleetrec-{name}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        while self._thread.is_alive():  # it may be waiting for space in the queue
            with contextlib.suppress(queue.Empty):
                self._queue.get(timeout=0.01)
        self._thread.join()
        self._items.close()

    def __iter__(self) -> Iterator[Out]:
        return self

    def __next__(self) -> Out:
        if self._stopping.is_set():
            raise RuntimeError("the epoch is closed; read its batches inside the with block")
        item = self._queue.get()
        if isinstance(item, _End):
            self._queue.put(item)
            if item.error is not None:
                raise item.error
            raise StopIteration
        return item

    def _run(self) -> None:
        end = _End()
        try:
            for item in self._items:
                if self._stopping.is_set():
                    return
                self._queue.put(item)
        except Exception as error:  # noqa: BLE001 - raised again in __next__
            end = _End(error)
        self._queue.put(end)


class BackgroundProcess(Generic[Out]):
    """Runs a generator in a process of its own, a few items ahead of its reader.

    ``make`` and the items are pickled.
    """

    def __init__(self, make: Callable[[], Generator[Out]], *, num_ahead: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._queue: multiprocessing.Queue[Out | _End] = context.Queue(num_ahead)
        self._process = context.Process(target=_fill, args=(make, self._queue), daemon=True)

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join()
        self._queue.close()
        self._queue.cancel_join_thread()

    def __iter__(self) -> Iterator[Out]:
        return self

    def __next__(self) -> Out:
        while True:
            try:
                item = self._queue.get(timeout=1)
                break
            except queue.Empty:
                if not self._process.is_alive() and self._queue.empty():
                    code = self._process.exitcode
                    raise DataError(f"a reader process has died (exit code {code})") from None
        if isinstance(item, _End):
            if item.error is not None:
                raise item.error
            raise StopIteration
        return item


def _fill(make: Callable[[], Generator[Out]], items: "multiprocessing.Queue[Out | _End]") -> None:
    end = _End()
    try:
        for item in make():
            items.put(item)
    except Exception as error:  # noqa: BLE001 - raised again by the reader
        end = _End(error)
    items.put(end)


@contextlib.contextmanager
def map_ahead(
    work: Callable[[In], Out],
    items: Generator[In],
    *,
    num_threads: int,
    in_processes: bool,
) -> Iterator[Iterator[Out]]:
    """Yield an iterator of ``work(item)`` in order, computed by several threads or processes."""
    with contextlib.ExitStack() as stack:
        pool = _pool(num_threads, in_processes=in_processes)
        stack.callback(pool.shutdown, cancel_futures=True)
        submitted = (pool.submit(work, item) for item in items)
        stack.callback(items.close)
        ahead = Background(submitted, num_ahead=QUEUED_PER_THREAD * num_threads, name="read")
        yield _results(stack.enter_context(ahead))


@contextlib.contextmanager
def map_on_demand(work: Callable[[In], Out], items: Generator[In]) -> Iterator[Iterator[Out]]:
    """Yield an iterator of ``work(item)``, computed on request; items are read ahead."""
    with Background(items, num_ahead=QUEUED_PER_THREAD, name="read") as ahead:
        yield map(work, ahead)


def _results(futures: Iterator[Future[Out]]) -> Iterator[Out]:
    for future in futures:
        try:
            yield future.result()
        except multiprocessing.ProcessError as error:
            raise DataError(f"a reader process has died: {error}") from error


def _pool(num_workers: int, *, in_processes: bool) -> Executor:
    if in_processes:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(num_workers, mp_context=context)
    return ThreadPoolExecutor(num_workers, thread_name_prefix="fleetrec-parse")
