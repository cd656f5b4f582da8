"""Report in one process what another one appends to metrics.jsonl."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fleetrec.train.alarms import Alarm, log_alarm
from fleetrec.train.events import Observer, PassDone
from fleetrec.train.records import parse_record


class MetricsTail:
    """Reads a growing file and reports what is new: finished passes, what was saved, alarms."""

    def __init__(self, path: Path, observer: Observer) -> None:
        self._path = path
        self._observer = observer
        self._offset = path.stat().st_size if path.is_file() else 0

    def poll(self) -> None:
        """Report the lines that were completed since the last call."""
        if not self._path.is_file():
            return
        with self._path.open("rb") as stream:
            stream.seek(self._offset)
            lines, newline, _ = stream.read().rpartition(b"\n")
        self._offset += len(lines) + len(newline)
        for line in lines.splitlines():
            record = parse_record(line)
            if record is not None:
                self._report(record)

    def _report(self, record: Mapping[str, Any]) -> None:
        if record["event"] == "saved":
            self._observer.saved(record["what"], record["path"], epoch=record["epoch"])
        elif record["event"] == "alarm":
            log_alarm(Alarm.from_plain(record))
        elif record["event"] == "pass":
            metrics = {k: float("nan") if v is None else v for k, v in record["metrics"].items()}
            self._observer.pass_done(
                PassDone(
                    kind=record["kind"],
                    phase=record["phase"],
                    epoch=record["epoch"],
                    seconds=record["seconds"],
                    samples_per_s=record["samples_per_s"],
                    metrics=metrics,
                    tables=record["tables"],
                    event_time=record.get("event_time"),
                    index=record.get("index"),
                    delay_s=record.get("delay_s"),
                )
            )
