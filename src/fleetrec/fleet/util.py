"""What the workers of a job do together beside training."""

import io
import sys
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from fleetrec.core.errors import UnavailableError
from fleetrec.core.partition import contiguous_block
from fleetrec.core.place import Place

Mode = Literal["sum", "min", "max"]
Number = int | float | npt.NDArray[np.float64] | npt.NDArray[np.int64]
Gather = Callable[[bytes], list[bytes]]  # an all-gather over the workers


class Util:
    """Reached as ``fleet.util``."""

    def __init__(self, place: Callable[[], Place], gather: Gather) -> None:
        self._place = place
        self._gather = gather

    def get_file_shard(self, files: Sequence[str]) -> list[str]:
        """Return this worker's part of a list: a block; the first workers have one more."""
        place = self._place()
        if place.role != "worker":
            raise UnavailableError("fleet.util.get_file_shard: a server reads no files")
        return [files[i] for i in contiguous_block(len(files), place.rank, place.num_workers)]

    def all_gather(self, value: Number, comm_world: str = "worker") -> list[Number]:
        """Return the values of all workers, in their order; every worker has to call it."""
        _check_world(comm_world)
        return [_decode(content) for content in self._gather(_encode(value))]

    def all_reduce(self, value: Number, mode: Mode = "sum", comm_world: str = "worker") -> Number:
        """Return sum, least or greatest of the values of all workers, place by place."""
        reduce = {"sum": np.add, "min": np.minimum, "max": np.maximum}
        if mode not in reduce:
            raise ValueError(f"all_reduce: expected sum, min or max, got {mode!r}")
        values = [np.asarray(value) for value in self.all_gather(value, comm_world)]
        shapes = {array.shape for array in values}
        if len(shapes) > 1:
            raise ValueError(f"all_reduce: the workers' values differ in shape: {sorted(shapes)}")
        reduced = reduce[mode].reduce(values)
        return np.asarray(reduced) if np.ndim(reduced) else reduced.item()

    def barrier(self, comm_world: str = "worker") -> None:
        """Wait until all workers are here."""
        _check_world(comm_world)
        self._gather(b"")

    def print_on_rank(self, message: str, rank_id: int) -> None:
        """Print a line on one worker only."""
        place = self._place()
        if place.role == "worker" and place.rank == rank_id:
            sys.stdout.write(f"{message}\n")
            sys.stdout.flush()


def _check_world(comm_world: str) -> None:
    if comm_world != "worker":
        raise UnavailableError(f"comm_world {comm_world!r}: only workers meet; use 'worker'")


def _encode(value: Number) -> bytes:
    """Return a number or an array as the bytes of a NumPy file, which can not run code."""
    array = np.asarray(value)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"expected a number or an array of numbers, got {array.dtype}")
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def _decode(content: bytes) -> Number:
    array: npt.NDArray[np.float64] = np.load(io.BytesIO(content), allow_pickle=False)
    return array if array.ndim else array.item()
