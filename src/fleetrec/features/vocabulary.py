"""A vocabulary in a file: one word per line."""

from pathlib import Path

import fsspec  # type: ignore[import-untyped]

from fleetrec.core.errors import DataError


def read_vocabulary(path: str) -> tuple[str, ...]:
    """Return the words of a file, local or at a URL, in the order of its lines."""
    try:
        content = _read(path)
    except Exception as error:  # file systems of URLs are plug-ins, which raise their own errors
        if not isinstance(error, OSError | ImportError) and "://" not in path:
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"vocabulary {path}: cannot be read: {reason}") from error
    return parse_vocabulary(content, path=path)


def parse_vocabulary(content: bytes, *, path: str) -> tuple[str, ...]:
    """Return the words in the content of a file, in the order of its lines."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: expected text in UTF-8: {error}") from error
    lines = text.split("\n")
    words = tuple(line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1]))
    if not words:
        raise DataError(f"vocabulary {path}: is empty; expected one word per line")
    return words


def _read(path: str) -> bytes:
    if "://" not in path:
        return Path(path).read_bytes()
    with fsspec.open(path, "rb") as stream:
        content: bytes = stream.read()
    return content
