"""Observers that write: the log for people and grep, JSON lines for programs."""

import json
import logging
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fleetrec.core.status import Status, write_status
from fleetrec.train.alarms import Alarm
from fleetrec.train.events import Interval, PassDone, QuietObserver, Tables
from fleetrec.train.recent_passes import RecentPasses

logger = logging.getLogger(__name__)


class LogObserver(QuietObserver):
    """Writes the lines of PaddleRec."""

    def __init__(self, *, num_phases: int) -> None:
        self._num_phases = num_phases

    def interval(self, interval: Interval) -> None:
        """Write the progress line."""
        info = interval.info
        where = f"  epoch: {info.epoch},  batch:" if info.kind == "train" else " batch:"
        head = "[Train]," if info.kind == "train" else "[Infer]"
        costs = {name: f"{seconds:.2f}s" for name, seconds in interval.costs.items()}
        logger.info(
            "\t%s%s %d, time_each_interval: %.2fs, %s",
            head,
            where,
            info.batch,
            interval.seconds,
            ", ".join(
                [
                    *(f"{name}: [{_short(value)}]" for name, value in interval.metrics.items()),
                    *(f"{name}: {text}" for name, text in costs.items()),
                    *_tables(interval.tables),
                    f"samples/s: {interval.samples_per_s:.0f}",
                    f"ETA: {duration(interval.eta_s)}",
                ]
            ),
        )

    def pass_done(self, done: PassDone) -> None:
        """Write the line of an epoch."""
        metrics = ", ".join(f"{name}=[{_short(value)}]" for name, value in done.metrics.items())
        if done.kind == "infer":
            text = f"Infer {done.phase} of epoch {done.epoch} done"
        else:
            text = f"epoch {done.epoch} done"
            if self._num_phases > 1:
                text = f"epoch {done.epoch} {done.phase} done"
        logger.info(
            "%s, use time: %.2f, global metrics: %s",
            text,
            done.seconds,
            ", ".join([metrics, *_tables(done.tables), f"samples/s: {done.samples_per_s:.0f}"]),
        )

    def saved(self, what: str, url: str, *, epoch: int) -> None:
        """Write where something was saved."""
        logger.info('\tsave epoch_id:%d %s into: "%s"', epoch, what, url)


class StepLogObserver(LogObserver):
    """Writes the lines of EasyRec, by the step of the whole run."""

    def __init__(self, *, interval: int) -> None:
        super().__init__(num_phases=1)
        self._interval = interval

    def interval(self, interval: Interval) -> None:
        """Write the progress line, if it is time for one."""
        step = interval.info.step + 1
        if step % self._interval:
            return
        metrics = dict(interval.metrics)
        lr, loss = interval.lr, metrics.pop("LOSS")
        others = [
            f"{name} = {_short(value)}"
            for name, value in metrics.items()
            if not name.startswith("BATCH_") and not name.startswith("loss/")
        ]
        logger.info(
            "global step %d: %s",
            step,
            ", ".join(
                [
                    *([] if lr is None else [f"lr = {_short(lr)}"]),  # else servers know it
                    *others,
                    *_tables(interval.tables),
                    f"total_loss = {_short(loss)}",
                    f"samples/s: {interval.samples_per_s:.0f}",
                ]
            ),
        )

    def pass_done(self, done: PassDone) -> None:
        """Write the line of an epoch, or of an evaluation."""
        if done.kind == "train":
            super().pass_done(done)
            return
        metrics = ", ".join(f"{name} = {_short(value)}" for name, value in done.metrics.items())
        logger.info("eval of %s: %s, %.2f s", done.epoch, metrics, done.seconds)

    def saved(self, what: str, url: str, *, epoch: int) -> None:
        """Write where something was saved."""
        logger.info("epoch %d: %s saved in %s", epoch, what, url)


class JsonObserver(QuietObserver):
    """Appends every interval and every pass to metrics.jsonl, the source of all reports.

    With a clock ``now`` (seconds since 1970), as online runs have it, passes and what is saved have
    the time, and how old the data was.
    """

    def __init__(self, path: Path, *, now: Callable[[], float] | None = None) -> None:
        self._path = path
        self._now = now
        self._recent = RecentPasses()
        self._is_begun = False  # whether this process has written a line

    def interval(self, interval: Interval) -> None:
        """Append an interval."""
        info = interval.info
        self._append(
            event="interval",
            kind=info.kind,
            phase=info.phase,
            epoch=info.epoch,
            batch=info.batch,
            step=info.step,
            samples_per_s=interval.samples_per_s,
            metrics=_plain(interval.metrics),
            tables=interval.tables,
            **({"pass": info.pass_name} if info.pass_name else {}),
        )

    def pass_done(self, done: PassDone) -> None:
        """Append a pass."""
        self._append(
            event="pass",
            kind=done.kind,
            phase=done.phase,
            epoch=done.epoch,
            seconds=done.seconds,
            samples_per_s=done.samples_per_s,
            metrics=_plain(done.metrics),
            tables=done.tables,
            **self._times(done),
        )

    def saved(self, what: str, url: str, *, epoch: int) -> None:
        """Append what was saved."""
        self._append(event="saved", what=what, path=url, epoch=epoch, **self._data_of(epoch))

    def alarm(self, alarm: Alarm) -> None:
        """Append an alarm that begins or is over."""
        self._append(event="alarm", **alarm.to_plain())

    def _times(self, done: PassDone) -> dict[str, Any]:
        if self._now is None or done.event_time is None:
            return {}
        times = {"index": done.index, "event_time": done.event_time, "time": self._now()}
        self._recent.add(done)
        return times if done.kind == "infer" else {**times, "delay_s": done.delay_s}

    def _data_of(self, index: int) -> dict[str, Any]:
        """Return which data something has that was saved after a pass, and how old that is."""
        if self._now is None:
            return {}
        now, after = self._now(), self._recent.get(index)
        if after is None:
            return {"time": now}
        age_s = self._recent.age_s(index, now=now)
        return {"time": now, "pass": after.epoch, "event_time": after.event_time, "age_s": age_s}

    def _append(self, **record: Any) -> None:
        self._begin_line()
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(record, allow_nan=False) + "\n")

    def _begin_line(self) -> None:
        """End a line that a killed process has left unfinished."""
        if self._is_begun:
            return
        self._is_begun = True
        if self._path.is_file():
            with self._path.open("rb+") as stream:
                size = stream.seek(0, os.SEEK_END)
                stream.seek(max(0, size - 1))
                if stream.read(1) not in (b"", b"\n"):
                    stream.write(b"\n")


class StatusObserver(QuietObserver):
    """Writes the current state to a small file, for a supervisor."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def interval(self, interval: Interval) -> None:
        """Write progress and rate."""
        info = interval.info
        status = Status(
            epoch=info.epoch,
            batch=info.batch,
            per_s=interval.samples_per_s,
            loss=_first(interval.metrics, "LOSS"),
            auc=_first(interval.metrics, "AUC"),
            queue=interval.num_pending_pushes,
        )
        write_status(self._path, status)


def duration(seconds: float) -> str:
    """Write seconds as people do: 42s, 3m10s, 2h05m."""
    if not math.isfinite(seconds):
        return "?"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def _tables(tables: Tables) -> list[str]:
    return [
        f"{name}: {stats['rows']} rows ({stats['created']} made, {stats['evicted']} evicted: "
        f"{stats['evicted_unseen']} unseen, {stats['evicted_score']} low score, "
        f"{stats['evicted_capacity']} beyond max_rows; {stats['candidates']} waiting)"
        for name, stats in tables.items()
    ]


def _first(metrics: Mapping[str, float], name: str) -> float | None:
    """Return the metric of that name, or of the first task that has one; None if undefined."""
    found = [value for key, value in metrics.items() if key.startswith(name)]
    return found[0] if found and math.isfinite(found[0]) else None


def _short(value: float) -> str:
    return f"{value:.6g}"


def _plain(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """Return metrics for JSON, which has no nan: null where undefined."""
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}
