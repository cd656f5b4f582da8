"""Reads metrics.jsonl, also while a run appends to it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a run; a line that a killed process has left unfinished is skipped."""
    if not path.is_file():
        return
    with path.open("rb") as stream:
        for line in stream:
            record = parse_record(line)
            if record is not None:
                yield record


def parse_record(line: bytes) -> dict[str, Any] | None:
    """Return the record of a line; None if the line is not complete."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and "event" in record else None
