"""The metrics of a pass that matter for watching a run, by their names without the task."""

import math
from collections.abc import Mapping, Sequence

EVALUATED = ("AUC", "GAUC", "COPC", "LOGLOSS")


def metrics_named(metrics: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    """Return metrics of some names for all tasks: ``AUC`` finds ``AUC`` and ``AUC_click``."""
    return {
        key: value
        for name in names
        for key, value in metrics.items()
        if key == name or key.startswith(f"{name}_")
    }


def why_undefined(key: str, metrics: Mapping[str, float]) -> str:
    """Return why a metric such as ``AUC_click`` has no value; empty if it is not known."""
    name, separator, task = key.partition("_")
    if metrics.get("SAMPLES" + separator + task) == 0:
        return "no sample"
    rate = metrics.get("ACTUAL_CTR" + separator + task, math.nan)
    if name in ("AUC", "GAUC"):
        return {0.0: "no positive label", 1.0: "no negative label"}.get(rate, "")
    return ""


def num_samples(metrics: Mapping[str, float]) -> int:
    """Return the samples of a pass; every task counts all of them."""
    return int(max(metrics_named(metrics, ["SAMPLES"]).values(), default=0))
