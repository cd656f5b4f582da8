"""Sizes, speeds and times as people write them."""

import re
from collections.abc import Mapping

from fleetrec.core.errors import ConfigError

PREFIXES = "KMGT"


def bytes_of(text: str, *, option: str) -> int:
    """Read ``80GB`` or ``64GiB``."""
    return int(_quantity(text, _byte_units(), option=option))


def bytes_per_s_of(text: str, *, option: str) -> float:
    """Read ``25Gb``, bits in a second, or ``3GB``, bytes in a second."""
    bits = {f"{letter}b": 1000**power / 8 for power, letter in enumerate(PREFIXES, start=1)}
    return _quantity(text, {**bits, **_byte_units()}, option=option)


def seconds_of(text: str, *, option: str) -> float:
    """Read ``50us``."""
    return _quantity(text, {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}, option=option)


def bytes_text(num_bytes: float) -> str:
    """Write bytes with three digits or so."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if num_bytes >= size:
            return f"{num_bytes / size:.3g} {unit}"
    return f"{num_bytes:.0f} B"


def seconds_text(seconds: float) -> str:
    """Write a time with three digits or so."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def _byte_units() -> dict[str, float]:
    """Return thousands (GB) and powers of two (GiB)."""
    thousands = {f"{letter}B": 1e3**power for power, letter in enumerate(PREFIXES, start=1)}
    twos = {f"{letter}iB": 1024.0**power for power, letter in enumerate(PREFIXES, start=1)}
    return {"B": 1.0, **thousands, **twos}


def _quantity(text: str, units: Mapping[str, float], *, option: str) -> float:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", text)
    value = float(found[1]) if found else 0.0
    if found is None or found[2] not in units or value <= 0:
        listed = ", ".join(units)
        raise ConfigError(
            [f"{option}: expected a number above 0 and one of {listed}, got {text!r}"]
        )
    return value * units[found[2]]
