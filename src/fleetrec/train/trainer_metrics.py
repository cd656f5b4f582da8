"""The metrics of an online run for Prometheus, collected from its events."""

import math
import re
import threading
from collections.abc import Callable, Mapping

from fleetrec.server.prometheus import ByLabel, LabelledMetrics
from fleetrec.train.events import PassDone, QuietObserver
from fleetrec.train.online_metrics import num_samples
from fleetrec.train.recent_passes import RecentPasses

TABLE_KEYS = (
    "rows",
    "candidates",
    "created",
    "evicted",
    "evicted_unseen",
    "evicted_score",
    "evicted_capacity",
)
NOT_IN_A_NAME = re.compile(r"[^a-z0-9_]+")


class TrainerMetrics(QuietObserver):
    """Keeps what the last pass of a run has reported; ``metrics`` may be called by any thread."""

    def __init__(self, *, num_phases: int, now: Callable[[], float]) -> None:
        self._num_phases = num_phases
        self._now = now
        self._lock = threading.Lock()
        self._plain: dict[str, float] = {}
        self._by_phase: dict[str, dict[str, float]] = {}
        self._by_table: dict[str, dict[str, float]] = {}
        self._by_kind: dict[str, dict[str, float]] = {}  # of what was saved
        self._num_samples = 0
        self._num_passes = 0
        self._arrived_at: float | None = None
        self._recent = RecentPasses()

    def metrics(self) -> LabelledMetrics:
        """Return the metrics of this moment."""
        with self._lock:
            found: dict[str, float | Mapping[str, float] | ByLabel] = {
                "train_samples_total": float(self._num_samples),
                "train_passes_total": float(self._num_passes),
                **self._plain,
                **_labelled("phase", self._by_phase),
                **_labelled("table", self._by_table),
                **_labelled("what", self._by_kind),
            }
            if self._arrived_at is not None:
                found["data_age_seconds"] = self._now() - self._arrived_at
            return found

    def pass_done(self, done: PassDone) -> None:
        """Keep the metrics of a pass."""
        if done.event_time is None:
            return
        prefix = "eval" if done.kind == "infer" else "train"
        with self._lock:
            for name, value in done.metrics.items():
                self._by_phase.setdefault(f"{prefix}_{_metric_name(name)}", {})[done.phase] = value
            self._plain["waiting_seconds"] = 0.0
            if done.kind == "train":
                self._trained(done)

    def waiting(self, what: str, seconds: float) -> None:
        """Keep for how long data has been waited for."""
        del what
        with self._lock:
            self._plain["waiting_seconds"] = seconds

    def saved(self, what: str, url: str, *, epoch: int) -> None:
        """Keep when something was saved, after which pass, and how old its data was."""
        del url
        with self._lock:
            now = self._now()
            saved = {"saved_time_seconds": now, "saved_pass_index": float(epoch)}
            age_s = self._recent.age_s(epoch, now=now)
            if age_s is not None:
                saved["saved_age_seconds"] = age_s
            for name, value in saved.items():
                self._by_kind.setdefault(name, {})[what] = value

    def _trained(self, done: PassDone) -> None:
        self._recent.add(done)
        self._num_samples += num_samples(done.metrics)
        self._num_passes += 1
        self._plain["pass_index"] = math.nan if done.index is None else float(done.index)
        self._plain["pass_event_time_seconds"] = float(done.event_time or 0)
        self._plain["pass_duration_seconds"] = done.seconds
        if done.delay_s is not None:
            self._plain["pass_delay_seconds"] = done.delay_s
            self._arrived_at = done.arrived_at
        for table, stats in done.tables.items():
            label = table if self._num_phases == 1 else f"{done.phase}/{table}"
            for key in TABLE_KEYS:
                if key in stats:
                    self._by_table.setdefault(f"table_{key}", {})[label] = float(stats[key])


def _labelled(label: str, metrics: Mapping[str, Mapping[str, float]]) -> dict[str, ByLabel]:
    return {name: ByLabel(label=label, values=dict(values)) for name, values in metrics.items()}


def _metric_name(name: str) -> str:
    """Return the name of a metric as Prometheus allows it: ``AUC_click`` is ``auc_click``."""
    return NOT_IN_A_NAME.sub("_", name.lower())
