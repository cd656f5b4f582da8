"""The engines by name; each is imported when it is needed."""

from __future__ import annotations

import importlib
from types import MappingProxyType
from typing import Any

from fleetrec.launch.engine import Engine

_ENGINES = MappingProxyType(
    {
        "mpi": ("fleetrec.launch.mpi", "MpiEngine"),
        "slurm": ("fleetrec.launch.slurm", "SlurmEngine"),
        "kubernetes": ("fleetrec.launch.kubernetes", "KubernetesEngine"),
        "dlc": ("fleetrec.launch.kubernetes", "KubernetesEngine"),
        "ray": ("fleetrec.launch.ray", "RayEngine"),
        "paddlecloud": ("fleetrec.launch.paddlecloud", "PaddleCloudEngine"),
        "local": ("fleetrec.launch.local_engine", "LocalEngine"),
    }
)


def make_engine(name: str, options: Any) -> Engine:
    """Return the engine of a backend with its options."""
    module, engine = _ENGINES[name]
    made: Engine = getattr(importlib.import_module(module), engine)(options)
    return made
