"""What a Fleet program prints while it trains."""

import dataclasses
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import TextIO

from fleetrec.core.errors import ConfigError
from fleetrec.train.events import Interval, PassDone, QuietObserver


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """Which metrics of a pass are printed under which labels, and how often."""

    fetches: Mapping[str, str] = dataclasses.field(default_factory=dict)
    print_period: int = 100
    shows_costs: bool = False


class FetchObserver(QuietObserver):
    """Prints the metrics that the caller asked for, under the caller's labels."""

    def __init__(self, fetches: Mapping[str, str], *, stream: TextIO | None = None) -> None:
        self._fetches = fetches
        self._stream = stream or sys.stdout

    def interval(self, interval: Interval) -> None:
        """Print a line, if any metric was asked for."""
        unknown = sorted(set(self._fetches) - set(interval.metrics))
        if unknown:
            known = ", ".join(interval.metrics)
            raise ConfigError([f"fetch_list: no metric is called {unknown[0]!r}; known: {known}"])
        where = f"batch {interval.info.batch}"
        self._print(where, interval.metrics, interval.samples_per_s, interval.costs)

    def pass_done(self, done: PassDone) -> None:
        """Print the metrics of the pass."""
        self._print(f"pass {done.epoch} done", done.metrics, done.samples_per_s)

    def _print(
        self,
        where: str,
        metrics: Mapping[str, float],
        samples_per_s: float,
        costs: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        parts = [
            f"{label}: {metrics[name]:.6g}"
            for name, label in self._fetches.items()
            if name in metrics
        ]
        parts += [f"{name}: {seconds:.2f}s" for name, seconds in costs.items()]
        if parts:
            line = ", ".join([where, *parts, f"samples/s: {samples_per_s:.0f}"])
            self._stream.write(f"{line}\n")
            self._stream.flush()
