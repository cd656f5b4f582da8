"""Fluid's place of the strategies of its first generation."""

from fleetrec.fluid.missing import missing
from fleetrec.fluid.transpiler.distribute_transpiler import DistributeTranspilerConfig

__all__ = ("DistributeTranspilerConfig",)

__getattr__ = missing("fluid.transpiler", __all__)
