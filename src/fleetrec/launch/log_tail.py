"""The last lines of a log, for people."""

from pathlib import Path

TAIL_BYTES = 1 << 14
LINE_CHARACTERS = 400


def log_tail(path: Path, *, num_lines: int = 30) -> list[str]:
    """Return the last lines, a last one without an end too; long ones are cut."""
    with path.open("rb") as stream:
        num_bytes = stream.seek(0, 2)
        stream.seek(max(0, num_bytes - TAIL_BYTES))
        lines = stream.read().decode("utf-8", errors="replace").splitlines()
    if num_bytes > TAIL_BYTES and len(lines) > 1:
        lines = lines[1:]  # its beginning is out of sight
    return [_cut(line) for line in lines[-num_lines:]]


def _cut(line: str) -> str:
    if len(line) <= LINE_CHARACTERS:
        return line
    return f"{line[:LINE_CHARACTERS]}... ({len(line)} characters)"
