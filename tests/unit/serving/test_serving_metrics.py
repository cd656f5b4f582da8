"""Metrics of a server."""

import pytest

from fleetrec.export.manifest import VersionEntry
from fleetrec.server.prometheus import to_text
from fleetrec.serving.metrics import ServingMetrics
from fleetrec.serving.model_source import LoadedModel
from making_served import SumPredictor, make_signature


class Source:
    """A source of what the test has loaded."""

    def __init__(self, predictor=None, lag_s=None):
        self.loaded = predictor and LoadedModel(
            predictor=predictor, signature=make_signature(predictor)
        )
        self.lag_s = lag_s


def test_requests_latency_and_batches_are_counted():
    metrics = ServingMetrics()
    for status in (200, 200, 400):
        metrics.count_request(status)
    metrics.observe_latency(0.0015)
    metrics.observe_latency(60.0)
    metrics.observe_batch(64)
    text = to_text(metrics.collect(Source(), lambda: 3))
    assert 'fleetrec_serving_requests_total{code="200"} 2.0' in text
    assert 'fleetrec_serving_requests_total{code="400"} 1.0' in text
    assert "# TYPE fleetrec_serving_latency_seconds histogram" in text
    assert 'fleetrec_serving_latency_seconds_bucket{le="0.001"} 0\n' in text
    assert 'fleetrec_serving_latency_seconds_bucket{le="0.002"} 1\n' in text
    assert 'fleetrec_serving_latency_seconds_bucket{le="+Inf"} 2\n' in text
    assert "fleetrec_serving_latency_seconds_count 2\n" in text
    assert 'fleetrec_serving_batch_samples_bucket{le="32.0"} 0\n' in text
    assert 'fleetrec_serving_batch_samples_bucket{le="64.0"} 1\n' in text
    assert "fleetrec_serving_batch_samples_sum 64.0\n" in text
    assert "fleetrec_serving_queue_depth 3.0" in text
    assert "fleetrec_serving_ready 0.0" in text
    assert "fleetrec_serving_rows" not in text


@pytest.mark.parametrize("has_version", [True, False])
def test_the_loaded_model_is_described(has_version):
    predictor = SumPredictor()
    if has_version:
        update = {"version": VersionEntry(id=86400, key=1)}
        predictor.manifest = predictor.manifest.model_copy(update=update)
    text = to_text(ServingMetrics().collect(Source(predictor, lag_s=7), lambda: 0))
    assert ("fleetrec_serving_version 86400.0" in text) is has_version
    assert 'fleetrec_serving_model{fingerprint="0123456789abcdef"} 1.0' in text
    assert "fleetrec_serving_rows 3.0" in text
    assert "fleetrec_serving_lag_seconds 7.0" in text
