"""Passes of an online run, as observers get them."""

from fleetrec.core.event_time import day_time
from fleetrec.train.events import PassDone

DAY = "20261118"
PASS_S = 300


def make_metrics(**metrics):
    return {
        "AUC": 0.75,
        "LOGLOSS": 0.5,
        "ACTUAL_CTR": 0.2,
        "PREDICTED_CTR": 0.25,
        "COPC": 0.8,
        "SAMPLES": 100.0,
        "GAUC": 0.7,
        "LOSS": 0.5,
        **metrics,
    }


def make_evaluated(index=0, *, phase="learn", event_time=None, **metrics):
    """The evaluation of a pass of five minutes."""
    return PassDone(
        kind="infer",
        phase=phase,
        epoch=make_name(index),
        seconds=0.5,
        samples_per_s=200.0,
        metrics=make_metrics(**metrics),
        tables={},
        event_time=day_time(DAY) + index * PASS_S if event_time is None else event_time,
        index=index,
    )


def make_trained(
    index=0, *, phase="learn", delay_s=30.0, arrived_at=1000.0, tables=None, **metrics
):
    """The training of a pass of five minutes."""
    return PassDone(
        kind="train",
        phase=phase,
        epoch=make_name(index),
        seconds=2.0,
        samples_per_s=50.0,
        metrics=make_metrics(**metrics),
        tables={} if tables is None else tables,
        event_time=day_time(DAY) + index * PASS_S,
        index=index,
        arrived_at=arrived_at,
        delay_s=delay_s,
    )


def make_table(rows, *, created, evicted=0, candidates=0):
    return {"rows": rows, "created": created, "evicted": evicted, "candidates": candidates}


def make_name(index):
    minutes = index * PASS_S // 60
    return f"{DAY}/{minutes // 60:02d}{minutes % 60:02d}"
