"""The sections of backend.yaml that belong to one engine, and where their options are."""

import importlib
from types import MappingProxyType

from fleetrec.config.options import Options

# Found when they are needed: a job for one engine does not load the options of the others.
_OPTIONS = MappingProxyType(
    {
        "mpi": ("fleetrec.config.cluster.mpi", "MpiOptions"),
        "slurm": ("fleetrec.config.cluster.slurm", "SlurmOptions"),
        "kubernetes": ("fleetrec.config.cluster.kubernetes", "KubernetesOptions"),
        "ray": ("fleetrec.config.cluster.ray", "RayOptions"),
    }
)
SECTIONS = tuple(_OPTIONS)


def section_options(name: str) -> type[Options]:
    """Return the class of the options of a section."""
    module, options = _OPTIONS[name]
    found: type[Options] = getattr(importlib.import_module(module), options)
    return found


def section_of(backend: str) -> str | None:
    """Return the section that a backend reads; None if it has none of its own."""
    name = {"dlc": "kubernetes"}.get(backend, backend)
    return name if name in _OPTIONS else None
