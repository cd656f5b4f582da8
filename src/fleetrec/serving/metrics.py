"""Metrics of a server of inference models, for Prometheus. The event loop alone changes them."""

import collections
from collections.abc import Callable

from fleetrec.export.manifest import ModelManifest
from fleetrec.server.prometheus import ByLabel, Histogram, LabelledMetrics
from fleetrec.serving.model_source import ModelSource

LATENCY_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
BATCH_SIZES = tuple(2.0**power for power in range(13))


class ServingMetrics:
    """Counts requests and batches."""

    def __init__(self) -> None:
        self.num_in_flight = 0
        self.num_reloads = 0
        self._requests: collections.Counter[str] = collections.Counter()
        self._latency = Histogram(LATENCY_S)
        self._batch = Histogram(BATCH_SIZES)

    def count_request(self, status: int) -> None:
        """Count a request by the status of its response."""
        self._requests[str(status)] += 1

    def observe_latency(self, seconds: float) -> None:
        """Count the time of a prediction, from its first byte to its response."""
        self._latency.observe(seconds)

    def observe_batch(self, num_samples: int) -> None:
        """Count a batch that was computed."""
        self._batch.observe(num_samples)

    def collect(self, source: ModelSource, num_waiting: Callable[[], int]) -> LabelledMetrics:
        """Return all metrics by name."""
        loaded = source.loaded
        lag_s = source.lag_s
        model = {} if loaded is None else _of_model(loaded.predictor.manifest)
        return {
            "serving_requests_total": ByLabel(
                label="code", values={code: float(n) for code, n in self._requests.items()}
            ),
            "serving_latency_seconds": self._latency,
            "serving_batch_samples": self._batch,
            "serving_requests_in_flight": float(self.num_in_flight),
            "serving_queue_depth": float(num_waiting()),
            "serving_reloads_total": float(self.num_reloads),
            "serving_ready": float(loaded is not None),
            **({} if lag_s is None else {"serving_lag_seconds": float(lag_s)}),
            **({} if loaded is None else {"serving_rows": float(loaded.predictor.num_rows)}),
            **model,
        }


def _of_model(manifest: ModelManifest) -> LabelledMetrics:
    version = manifest.version
    return {
        **({} if version is None else {"serving_version": float(version.id)}),
        "serving_model": ByLabel(label="fingerprint", values={manifest.fingerprint: 1.0}),
    }
