"""Matrix products of float32 on the CPU, by AMX tiles if the processor has them."""

import math

import torch
from torch import Tensor

from fleetrec._native import has_tiles, multiply
from fleetrec.config.job import MatmulPrecision
from fleetrec.core.env import allows_tiles

# Below these sizes, filling tiles costs more than they gain; exact products gain least.
MIN_WIDTH = 64
MIN_VOLUME = 1 << 21
MIN_VOLUME_EXACT = 1 << 26

EXACT = 3


def uses_tiles() -> bool:
    """Return whether the processor has tiles and the environment allows their use."""
    return has_tiles() and allows_tiles()


def num_pieces_of(precision: MatmulPrecision) -> int | None:
    """Return the number of bfloat16 that each float32 is split into; None without tiles.

    A float32 is exactly the sum of three, so ``highest`` is as precise as torch's own products.
    """
    return {"highest": EXACT, "high": 2, "medium": 1}[precision] if uses_tiles() else None


def takes_tiles(num_pieces: int | None, *widths: int) -> bool:
    """Return whether a product of this height, width and depth is computed by tiles.

    Never while a model is exported: exported models use torch operations only.
    """
    if num_pieces is None or torch.compiler.is_exporting() or min(widths) < MIN_WIDTH:
        return False
    return math.prod(widths) >= (MIN_VOLUME_EXACT if num_pieces == EXACT else MIN_VOLUME)


def mm(
    a: Tensor,
    b: Tensor,
    *,
    num_pieces: int | None,
    out: Tensor | None = None,
    adds: bool = False,
) -> Tensor:
    """Return the product of two matrices, without a gradient; written or added to ``out``."""
    is_even = 1 in a.stride() and 1 in b.stride()
    if num_pieces is None or not is_even or not takes_tiles(num_pieces, a.shape[0], *b.shape):
        return out.addmm_(a, b) if out is not None and adds else torch.mm(a, b, out=out)
    if out is None:
        out = torch.empty(a.shape[0], b.shape[1])
    multiply(a.numpy(), b.numpy(), out.numpy(), num_pieces=num_pieces, adds=adds)
    return out
