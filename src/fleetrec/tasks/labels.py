"""Checks of labels."""

# Shape suffixes: B samples.

from torch import Tensor

from fleetrec.core.errors import DataError


def check_binary(name: str, labels_B: Tensor) -> None:
    """Raise an error for labels other than 0 and 1."""
    is_odd_B = (labels_B != 0) & (labels_B != 1)
    if is_odd_B.any():
        odd = float(labels_B[is_odd_B][0])
        raise DataError(f"label {name!r} must be 0 or 1, got {odd:g}")
