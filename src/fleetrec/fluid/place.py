"""Where a program runs."""

from fleetrec.core.errors import UnavailableError


class CPUPlace:
    """The processor."""


class CUDAPlace:
    """A GPU, which is not available to programs of Fluid."""

    def __init__(self, id: int = 0) -> None:
        raise UnavailableError(
            f"fluid.CUDAPlace({id}): programs of fleetrec.fluid train on CPUs; use fluid.CPUPlace()"
        )
