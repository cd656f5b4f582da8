"""Clear errors for names of Fluid that are not available here."""

from collections.abc import Callable, Iterable
from typing import Any

from fleetrec.config.problems import meant
from fleetrec.core.errors import UnavailableError


def missing(where: str, available: Iterable[str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module: it raises an error that lists what is available."""
    known = tuple(available)

    def raise_unavailable(name: str) -> Any:
        if name.startswith("__"):  # asked for by Python itself, which expects this error
            raise AttributeError(f"{where} has no attribute {name}")
        raise UnavailableError(
            f"{where}.{name}: not available{meant(name, known)}; available: {', '.join(known)}"
        )

    return raise_unavailable


def check_defaults(where: str, values: dict[str, tuple[Any, Any]]) -> None:
    """Raise an error for arguments that have no counterpart here, unless they have their default.

    Args:
        where: The call.
        values: The value and the default of each argument.
    """
    set_values = [f"{name}={value!r}" for name, (value, usual) in values.items() if value != usual]
    if set_values:
        raise UnavailableError(f"{where}: not available: {', '.join(set_values)}; leave it out")
