"""FleetRec trains recommendation models from a config file.

``fleetrec.train``, ``evaluate``, ``predict`` and ``export`` are functions; see ``fleetrec.api``.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fleetrec.api import evaluate, export, predict, train

__version__ = "0.1.0"
__all__ = ("evaluate", "export", "predict", "train")


class _CallableModule(ModuleType):
    """A subpackage with the name of a function of the API; calling it calls that function."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return _function(self.__name__.rpartition(".")[2])(*args, **options)


class _Package(ModuleType):
    """This package; importing ``fleetrec.train`` must not hide the function ``fleetrec.train``."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in __all__ and isinstance(value, ModuleType):
            value.__class__ = _CallableModule
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return _function(name)


def _function(name: str) -> Any:
    """Return a function of the API, which is loaded only now: ``import fleetrec`` is quick."""
    from fleetrec import api

    return getattr(api, name)


sys.modules[__name__].__class__ = _Package
