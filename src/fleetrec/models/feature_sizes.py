"""The number of unique ids of each slot, from a file."""

import math
from pathlib import Path


def read_feature_sizes(path: Path) -> dict[str, int]:
    """Read lines of a slot and a number, as in ``C1 139``."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ValueError(f"cat_feat_num: {path}: cannot be read: {error.strerror}") from error
    sizes: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        name, _, size = line.strip().partition(" ")
        if not (size.strip().isdecimal() and int(size) > 0):
            raise ValueError(
                f"cat_feat_num: {path}:{number}: expected a slot and its number of ids, as in "
                f"'C1 139', got {line!r}"
            )
        sizes[name] = int(size)
    return sizes


def dim_for(num_ids: int) -> int:
    """Return the default embedding width for a number of ids: six times their fourth root."""
    return int(6 * math.sqrt(math.sqrt(num_ids)))
