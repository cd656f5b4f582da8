"""Paddle's Fluid, as far as click models need it: programs run with changed imports only.

Layers record what the model computes; ``minimize`` makes a model of it that the Fleet API trains.
"""

from fleetrec.fluid import incubate, initializer, io, layers, optimizer, transpiler
from fleetrec.fluid.dataset import DatasetFactory, InMemoryDataset, QueueDataset
from fleetrec.fluid.executor import Executor
from fleetrec.fluid.graph import Program, Variable
from fleetrec.fluid.layers.data import batch_data as data
from fleetrec.fluid.missing import missing
from fleetrec.fluid.param_attr import ParamAttr
from fleetrec.fluid.place import CPUPlace, CUDAPlace
from fleetrec.fluid.programs import (
    default_main_program,
    default_startup_program,
    program_guard,
)
from fleetrec.fluid.transpiler import DistributeTranspilerConfig

__all__ = (
    "CPUPlace",
    "CUDAPlace",
    "DatasetFactory",
    "DistributeTranspilerConfig",
    "Executor",
    "InMemoryDataset",
    "ParamAttr",
    "Program",
    "QueueDataset",
    "Variable",
    "data",
    "default_main_program",
    "default_startup_program",
    "incubate",
    "initializer",
    "io",
    "layers",
    "optimizer",
    "program_guard",
    "transpiler",
)

__getattr__ = missing("fluid", __all__)
