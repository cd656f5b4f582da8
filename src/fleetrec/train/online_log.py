"""Log lines of online runs: passes by their names, with the metrics that matter."""

import logging
import math
from collections.abc import Mapping

from fleetrec.train.events import Interval, PassDone, Tables
from fleetrec.train.observers import LogObserver, duration
from fleetrec.train.online_metrics import EVALUATED, metrics_named, num_samples, why_undefined
from fleetrec.train.recent_passes import RecentPasses

logger = logging.getLogger(__name__)


class OnlineLogObserver(LogObserver):
    """Writes a line when a pass is evaluated, one when it is trained, and what is saved."""

    def __init__(self, *, num_phases: int) -> None:
        super().__init__(num_phases=num_phases)
        self._recent = RecentPasses()
        self._counts: dict[tuple[str, str], tuple[int, int]] = {}  # created, evicted before

    def interval(self, interval: Interval) -> None:
        """Write the progress within a pass."""
        info = interval.info
        if not info.pass_name:
            super().interval(interval)
            return
        logger.info(
            "%s, batch %d: %s",
            self._pass(info.pass_name, info.phase),
            info.batch,
            ", ".join(
                [
                    *_shown(metrics_named(interval.metrics, ("LOSS", "AUC")), interval.metrics),
                    *(f"{name} {cost:.2f} s" for name, cost in interval.costs.items()),
                    f"{interval.samples_per_s:.0f} samples/s",
                ]
            ),
        )

    def pass_done(self, done: PassDone) -> None:
        """Write the line of a pass."""
        if done.event_time is None:
            super().pass_done(done)
            return
        name = self._pass(done.epoch, done.phase)
        if done.kind == "infer":
            shown = _shown(metrics_named(done.metrics, EVALUATED), done.metrics)
            logger.info("%s evaluated before training: %s", name, ", ".join(shown))
            return
        self._recent.add(done)
        delay = [] if done.delay_s is None else [f"delay {duration(done.delay_s)}"]
        logger.info(
            "%s trained: %s",
            name,
            ", ".join(
                [
                    f"{num_samples(done.metrics)} samples in {done.seconds:.2f} s",
                    *_shown(metrics_named(done.metrics, ("LOSS", "AUC")), done.metrics),
                    *self._changes(done.phase, done.tables),
                    *delay,
                ]
            ),
        )

    def saved(self, what: str, url: str, *, epoch: int) -> None:
        """Write where something was saved."""
        after = self._recent.get(epoch)
        logger.info("%s%s saved in %s", f"pass {after.epoch}: " if after else "", what, url)

    def _pass(self, name: str, phase: str) -> str:
        return f"pass {name} {phase}" if self._num_phases > 1 else f"pass {name}"

    def _changes(self, phase: str, tables: Tables) -> list[str]:
        """Return the size of tables, and how it has changed since the last pass if that is known.

        The first pass of this process may continue those of an earlier one.
        """
        shown = []
        for table, stats in tables.items():
            before = self._counts.get((phase, table))
            now = stats["created"], stats["evicted"]
            self._counts[phase, table] = now
            changes = "" if before is None else f" (+{now[0] - before[0]} -{now[1] - before[1]})"
            waiting = f", {stats['candidates']} waiting" if stats["candidates"] else ""
            shown.append(f"{table} {stats['rows']} rows{changes}{waiting}")
        return shown


def _shown(metrics: Mapping[str, float], all_metrics: Mapping[str, float]) -> list[str]:
    """Return metrics in words; why they are undefined, if they are."""
    shown = []
    for name, value in metrics.items():
        if math.isfinite(value):
            shown.append(f"{name} {value:.4g}")
            continue
        reason = why_undefined(name, all_metrics)
        shown.append(f"{name} undefined ({reason})" if reason else f"{name} undefined")
    return shown
