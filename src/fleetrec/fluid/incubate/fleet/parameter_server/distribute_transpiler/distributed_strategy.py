"""Strategies by name."""

from fleetrec.fleet.strategy import StrategyFactory
from fleetrec.fluid.missing import missing

__all__ = ("StrategyFactory",)

__getattr__ = missing("distributed_strategy", __all__)
