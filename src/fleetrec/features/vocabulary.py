"""A vocabulary in a file: one word per line."""

from pathlib import Path

from fleetrec.core.errors import DataError


def read_vocabulary(path: str) -> tuple[str, ...]:
    """Return the words; the place of a line is the id of its word."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"vocab_file {path}: cannot be read: {error}") from error
    words = tuple(line.rstrip("\r") for line in text.splitlines())
    if not words:
        raise DataError(f"vocab_file {path}: is empty; expected one word per line")
    return words
