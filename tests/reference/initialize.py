"""First values of rows, drawn by hashing instead of by a generator that has a state."""

# Shape suffixes: N ids, D width of a row.

import hashlib

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fleetrec.embedding.table import TableConfig

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def initial_rows(table: TableConfig, ids_N: Tensor, *, seed: int) -> Tensor:
    """Return rows_ND that depend on nothing but (seed, table name, id)."""
    digest = hashlib.blake2b(f"{seed}/{table.name}".encode(), digest_size=8).digest()
    salt = np.uint64(int.from_bytes(digest, "little"))
    keys_N = _mix(ids_N.numpy().view(np.uint64) ^ salt)
    columns_D = np.arange(1, table.dim + 1, dtype=np.uint64) * _GOLDEN
    bits_ND = _mix(keys_N[:, None] + columns_D[None, :])
    uniform_ND = (bits_ND >> np.uint64(11)).astype(np.float64) * 2.0**-53
    if table.initializer.kind == "uniform":
        values_ND = 2.0 * uniform_ND - 1.0
    else:
        second_ND = (_mix(bits_ND) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        radius_ND = np.sqrt(-2.0 * np.log1p(-uniform_ND))
        values_ND = radius_ND * np.cos(2.0 * np.pi * second_ND)
    return torch.from_numpy((table.initializer.scale * values_ND).astype(np.float32))


def _mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Scatter bits (the finalizer of splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
