"""What a block of some samples must hold, by the plainest means."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def expected_block(
    samples: Sequence[Mapping[str, Sequence[float]]],
    *,
    sparse: Sequence[str],
    dense: Mapping[str, int],
    padding: int = 0,
) -> dict[str, Any]:
    ids: list[int] = []
    offsets = [0]
    for name in sparse:
        for sample in samples:
            ids += [int(v) for v in sample.get(name, ())] or [padding]
            offsets.append(len(ids))
    rows = {
        name: np.array([sample.get(name) or [padding] * width for sample in samples], np.float64)
        .astype(np.float32)
        .reshape(len(samples), width)
        .tobytes()
        for name, width in dense.items()
    }
    seen = [sum(bool(sample.get(name)) for sample in samples) for name in (*sparse, *dense)]
    return {"ids": ids, "offsets": offsets, "dense": rows, "seen": seen}


def contents_of(block: Any) -> dict[str, Any]:
    """The same of a block."""
    return {
        "ids": block.ids.values_N.tolist(),
        "offsets": block.ids.offsets.tolist(),
        "dense": {name: rows.numpy().tobytes() for name, rows in block.dense.items()},
        "seen": block.counts.seen.tolist(),
    }
