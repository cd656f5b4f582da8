"""The fleet of this process."""

from fleetrec.fluid.fleet import Fleet
from fleetrec.fluid.missing import missing
from fleetrec.fluid.transpiler.distribute_transpiler import DistributeTranspilerConfig

__all__ = ("DistributeTranspilerConfig", "fleet")

fleet = Fleet()

__getattr__ = missing("fluid.incubate.fleet.parameter_server.distribute_transpiler", __all__)
