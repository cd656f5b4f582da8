"""Strategies of the first generation."""

from fleetrec.fleet.strategy import DistributeTranspilerConfig
from fleetrec.fluid.missing import missing

__all__ = ("DistributeTranspilerConfig",)

__getattr__ = missing("fluid.transpiler.distribute_transpiler", __all__)
