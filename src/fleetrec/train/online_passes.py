"""The passes of an online run, read from metrics.jsonl."""

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from fleetrec.train.online_metrics import metrics_named, num_samples

Metrics = Mapping[str, float]
Tables = Mapping[str, Mapping[str, int]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class OnlinePass:
    """A pass of one phase: its evaluation before training, its training, and its tables.

    ``created`` and ``evicted`` are the rows of this pass by table, if they are known: those of the
    first pass in the file are not, unless it is the first of the run.
    """

    index: int
    name: str
    phase: str
    event_time: int
    evaluated: Metrics | None = None
    trained: Metrics | None = None
    tables: Tables = dataclasses.field(default_factory=dict)
    created: Mapping[str, int] = dataclasses.field(default_factory=dict)
    evicted: Mapping[str, int] = dataclasses.field(default_factory=dict)
    delay_s: float | None = None
    arrived_at: float | None = None

    @property
    def num_samples(self) -> int:
        """Return the samples of the pass."""
        return num_samples(self.trained or self.evaluated or {})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Day:
    """The passes of a day of event time (UTC) of one phase."""

    name: str
    phase: str
    passes: Sequence[OnlinePass]

    @property
    def num_samples(self) -> int:
        """Return the samples of all passes."""
        return sum(one.num_samples for one in self.passes)

    @property
    def num_rows(self) -> int | None:
        """Return the rows of all tables after the last pass that has trained."""
        sizes = [one.tables for one in self.passes if one.tables]
        return sum(stats["rows"] for stats in sizes[-1].values()) if sizes else None

    @property
    def num_created(self) -> int | None:
        """Return the rows that were created."""
        return _sum([one.created for one in self.passes])

    @property
    def num_evicted(self) -> int | None:
        """Return the rows that were evicted."""
        return _sum([one.evicted for one in self.passes])

    def metrics(self, keys: Sequence[str]) -> dict[str, float | None]:
        """Return metrics of the evaluations: COPC of all samples, else means by samples."""
        found = [one.evaluated for one in self.passes if one.evaluated]
        return {
            key: _copc(key, found) if key.startswith("COPC") else _mean(key, found) for key in keys
        }


def online_passes(records: Sequence[Mapping[str, Any]]) -> list[OnlinePass]:
    """Return the passes in their order; of one that was repeated after a kill, the last."""
    found: dict[tuple[int, str], OnlinePass] = {}
    for record in records:
        if record["event"] != "pass" or record.get("event_time") is None:
            continue
        key = (record["index"], record["phase"])
        before = found.get(key) or OnlinePass(
            index=record["index"],
            name=record["epoch"],
            phase=record["phase"],
            event_time=record["event_time"],
        )
        found[key] = dataclasses.replace(before, **_fields(record))
    in_order = [found[key] for key in sorted(found, key=lambda key: key[0])]
    return _with_changes(in_order)


def passes_by_day(passes: Sequence[OnlinePass]) -> list[Day]:
    """Return the days in their order."""
    days: dict[tuple[str, str], list[OnlinePass]] = {}
    for one in passes:
        at = datetime.datetime.fromtimestamp(one.event_time, tz=datetime.UTC)
        days.setdefault((f"{at:%Y%m%d}", one.phase), []).append(one)
    return [Day(name=name, phase=phase, passes=its) for (name, phase), its in days.items()]


def metric_keys(passes: Sequence[OnlinePass], names: Sequence[str]) -> list[str]:
    """Return the metrics of some names that the evaluations have, for all tasks."""
    merged = {key: 0.0 for one in passes for key in one.evaluated or {}}
    return list(metrics_named(merged, names))


def _fields(record: Mapping[str, Any]) -> dict[str, Any]:
    metrics = {name: value for name, value in record["metrics"].items() if value is not None}
    if record["kind"] == "infer":
        return {"evaluated": metrics}
    delay_s = record.get("delay_s")
    arrived_at = None if delay_s is None else record["time"] - delay_s
    return {
        "trained": metrics,
        "tables": record["tables"],
        "delay_s": delay_s,
        "arrived_at": arrived_at,
    }


def _with_changes(passes: Sequence[OnlinePass]) -> list[OnlinePass]:
    """Add how many rows each pass has created and evicted: tables count them for the whole run."""
    before: dict[tuple[str, str], Mapping[str, int]] = {}
    found = []
    for one in passes:
        created, evicted = {}, {}
        for table, stats in one.tables.items():
            last = before.get((one.phase, table))
            if last is None and one.index == 0:
                last = {"created": 0, "evicted": 0}
            if last is not None:
                created[table] = max(0, stats["created"] - last["created"])
                evicted[table] = max(0, stats["evicted"] - last["evicted"])
            before[one.phase, table] = stats
        found.append(dataclasses.replace(one, created=created, evicted=evicted))
    return found


def _copc(key: str, evaluated: Sequence[Metrics]) -> float | None:
    """Return COPC of several passes: the sum of labels by the sum of predictions."""
    suffix = key.removeprefix("COPC")
    actual = predicted = 0.0
    for metrics in evaluated:
        samples = metrics.get(f"SAMPLES{suffix}", 0.0)
        actual += samples * metrics.get(f"ACTUAL_CTR{suffix}", 0.0)
        predicted += samples * metrics.get(f"PREDICTED_CTR{suffix}", 0.0)
    return actual / predicted if predicted else None


def _mean(key: str, evaluated: Sequence[Metrics]) -> float | None:
    """Return the mean of a metric, weighted by samples."""
    known = [(metrics[key], num_samples(metrics)) for metrics in evaluated if key in metrics]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None


def _sum(counts: Sequence[Mapping[str, int]]) -> int | None:
    known = [number for count in counts for number in count.values()]
    return sum(known) if known else None
