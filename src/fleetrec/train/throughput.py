"""Samples per second and time left."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from fleetrec.train.events import Interval, StepInfo, Tables

T = TypeVar("T")
Clock = Callable[[], float]


class Throughput:
    """Measures intervals, and splits them into waiting for data and working."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begin = self._interval_begin = clock()
        self._waited = 0.0
        self._samples = 0
        self._first_fraction: float | None = None

    def timed(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items, counting the time spent waiting for them."""
        iterator = iter(items)
        while True:
            before = self._clock()
            try:
                item = next(iterator)
            except StopIteration:
                return
            finally:
                self._waited += self._clock() - before
            yield item

    def count(self, info: StepInfo, *, num_samples: int) -> None:
        """Count a step."""
        self._samples += num_samples
        if self._first_fraction is None:
            self._first_fraction = info.fraction

    def end_interval(
        self, info: StepInfo, metrics: Mapping[str, float], *, tables: Tables, costs: bool
    ) -> Interval:
        """Return the interval that ends now."""
        now = self._clock()
        seconds = max(now - self._interval_begin, 1e-9)
        waited, samples = self._waited, self._samples
        self._interval_begin, self._waited, self._samples = now, 0.0, 0
        split = {"reader_cost": waited, "step_cost": seconds - waited} if costs else {}
        return Interval(
            info=info,
            seconds=seconds,
            samples_per_s=samples / seconds,
            eta_s=self._eta(info.fraction, now - self._begin),
            metrics=metrics,
            costs=split,
            tables=tables,
        )

    def _eta(self, fraction: float, elapsed: float) -> float:
        done = fraction - (self._first_fraction or 0.0)
        return elapsed / done * (1.0 - fraction) if done > 0 else float("nan")
