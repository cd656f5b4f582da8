"""Rate and time left."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from fleetrec.train.events import Interval, Place, Tables

T = TypeVar("T")
Clock = Callable[[], float]


class Pace:
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

    def count(self, place: Place, *, num_samples: int) -> None:
        """Note that a step is over."""
        self._samples += num_samples
        if self._first_fraction is None:
            self._first_fraction = place.fraction

    def end_interval(
        self, place: Place, figures: dict[str, float], *, tables: Tables, costs: bool
    ) -> Interval:
        """Return the interval that ends now."""
        now = self._clock()
        seconds = max(now - self._interval_begin, 1e-9)
        waited, samples = self._waited, self._samples
        self._interval_begin, self._waited, self._samples = now, 0.0, 0
        split = {"reader_cost": waited, "step_cost": seconds - waited} if costs else {}
        return Interval(
            place=place,
            seconds=seconds,
            samples_per_s=samples / seconds,
            eta_s=self._eta(place.fraction, now - self._begin),
            figures=figures,
            costs=split,
            tables=tables,
        )

    def _eta(self, fraction: float, elapsed: float) -> float:
        done = fraction - (self._first_fraction or 0.0)
        return elapsed / done * (1.0 - fraction) if done > 0 else float("nan")
