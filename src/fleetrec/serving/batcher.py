"""Dynamic batching: requests that arrive at about the same time are computed as one batch."""

import asyncio
import collections
import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from fleetrec._native import set_num_threads
from fleetrec.core.errors import DataError, ModelError
from fleetrec.export.answer import Answer
from fleetrec.export.graph_predictor import GraphPredictor
from fleetrec.features.values import FeatureValues, join_ids
from fleetrec.serving.options import BatchOptions
from fleetrec.serving.request_error import RequestError

logger = logging.getLogger(__name__)

Outcome = Answer | Exception


@dataclasses.dataclass(slots=True, eq=False)
class _Item:
    """A request that waits. It is answered by the predictor that it was checked for."""

    predictor: GraphPredictor
    values: FeatureValues
    fetches: tuple[str, ...]
    arrived: float
    future: asyncio.Future[Answer]


class Batcher:
    """Computes requests of an event loop in threads, inside a ``with`` block.

    A thread takes waiting requests of one predictor, at most ``max_batch`` samples, once the first
    has waited for ``max_delay_s`` or there are enough. A larger request is computed alone.
    """

    def __init__(
        self,
        options: BatchOptions,
        *,
        loop: asyncio.AbstractEventLoop,
        on_batch: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._options = options
        self._loop = loop
        self._on_batch = on_batch
        self._ready = threading.Condition()
        self._items: collections.deque[_Item] = collections.deque()
        self._num_samples = 0
        self._is_closed = False
        self._threads = [
            threading.Thread(target=self._work, name=f"predict-{number}", daemon=True)
            for number in range(options.num_threads)
        ]

    def __enter__(self) -> "Batcher":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._ready:
            self._is_closed = True
            self._ready.notify_all()
        for thread in self._threads:
            thread.join()

    @property
    def num_waiting(self) -> int:
        """Return the number of requests that no thread has taken yet."""
        return len(self._items)

    def submit(
        self, predictor: GraphPredictor, values: FeatureValues, fetches: tuple[str, ...]
    ) -> asyncio.Future[Answer]:
        """Queue a request; called by the event loop. The answer has only its own samples."""
        future: asyncio.Future[Answer] = self._loop.create_future()
        item = _Item(predictor, values, fetches, time.monotonic(), future)
        with self._ready:
            self._items.append(item)
            self._num_samples += values.num_rows
            if len(self._items) == 1 or self._num_samples >= self._options.max_batch:
                self._ready.notify()
        return future

    def _work(self) -> None:
        set_num_threads(1)  # each batch is computed by one thread
        while batch := self._take():
            live = [item for item in batch if not item.future.cancelled()]
            if not live:
                continue
            outcomes = _compute(live)
            num_samples = sum(item.values.num_rows for item in live)
            self._loop.call_soon_threadsafe(self._resolve, live, outcomes, num_samples)

    def _resolve(
        self, items: Sequence[_Item], outcomes: Sequence[Outcome], num_samples: int
    ) -> None:
        self._on_batch(num_samples)
        for item, outcome in zip(items, outcomes, strict=True):
            if item.future.done():  # cancelled by a timeout
                continue
            if isinstance(outcome, Exception):
                item.future.set_exception(outcome)
            else:
                item.future.set_result(outcome)

    def _take(self) -> list[_Item]:
        """Wait for requests; an empty list means that the batcher is closed."""
        with self._ready:
            while not self._is_due():
                if self._is_closed and not self._items:
                    return []
                self._ready.wait(self._wait_s())
            first = self._items[0]
            taken: list[_Item] = []
            num_samples = 0
            while self._items and self._items[0].predictor is first.predictor:
                num_samples += self._items[0].values.num_rows
                if taken and num_samples > self._options.max_batch:
                    break
                taken.append(self._items.popleft())
                self._num_samples -= taken[-1].values.num_rows
            if self._items:
                self._ready.notify()
            return taken

    def _is_due(self) -> bool:
        if not self._items:
            return False
        is_full = self._num_samples >= self._options.max_batch
        return is_full or self._is_closed or self._wait_s() == 0.0

    def _wait_s(self) -> float | None:
        if not self._items:
            return None
        due = self._items[0].arrived + self._options.max_delay_s
        return max(0.0, due - time.monotonic())


def _compute(items: Sequence[_Item]) -> list[Outcome]:
    """Return an answer or an error for each; what is wrong with one does not concern others."""
    try:
        return list(_computed(items))
    except DataError as error:
        failure = RequestError(str(error))
    except ModelError as error:
        logger.error("%s", error)
        failure = RequestError("the model failed on this request; see the log", status=500)
    except Exception:
        logger.exception("a batch failed")
        failure = RequestError("internal error; see the log of the server", status=500)
    if len(items) == 1:
        return [failure]
    return [outcome for item in items for outcome in _compute([item])]


def _computed(items: Sequence[_Item]) -> list[Answer]:
    parts = [item.values for item in items]
    predictor = items[0].predictor
    fetches = list(dict.fromkeys(name for item in items for name in item.fetches))
    dense = {name: np.concatenate([part.dense[name] for part in parts]) for name in parts[0].dense}
    answer = predictor.compute(join_ids(parts, tuple(parts[0].ids)), dense, fetches)
    answers = []
    begin = 0
    for item in items:
        end = begin + item.values.num_rows
        outputs = {name: answer.outputs[name][begin:end] for name in item.fetches}
        answers.append(Answer(outputs=outputs, manifest=answer.manifest))
        begin = end
    return answers
