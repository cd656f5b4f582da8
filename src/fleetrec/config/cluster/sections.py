"""The sections of backend.yaml that belong to one engine, and where their options are."""

import dataclasses
import importlib
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from fleetrec.config.cluster.keys import BackendKeys
from fleetrec.config.cluster.shape import JobShape
from fleetrec.config.document import Location
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Completed:
    """The options of an engine, with what ``submit`` says in the words of PaddleRec."""

    section: Options | None
    notices: tuple[str, ...] = ()
    problems: tuple[tuple[Location, str], ...] = ()


def complete(section: Options | None, keys: BackendKeys) -> Completed:
    """Add ``priority`` and ``group`` to the options of an engine; its own section decides."""
    if section is None and section_of(keys.backend) is not None:  # it has problems
        return Completed(section=None)
    found: dict[str, Any] = {} if section is None else section.model_dump(exclude_unset=True)
    notices: list[str] = []
    problems: list[tuple[Location, str]] = []
    for key, value in (("priority", keys.submit.priority), ("group", keys.submit.group)):
        if key not in keys.submit.model_fields_set or not value or keys.backend == "paddlecloud":
            continue
        target = None if section is None else _target(keys.backend, key, section)
        if section is None or target is None:
            notices.append(f"submit.{key} has no effect with backend: {keys.backend}")
        elif target not in found:
            try:
                type(section).model_validate({**found, target: _spelled(keys.backend, value)})
                found[target] = _spelled(keys.backend, value)
            except ValidationError as error:
                text = error.errors()[0]["msg"].removeprefix("Value error, ")
                problems.append((("submit", key), f"{text}, got {value!r}"))
    if keys.backend == "dlc" and found.setdefault("flavour", "pytorchjob") != "pytorchjob":
        at = ("kubernetes", "flavour")
        problems.append((at, "backend: dlc has flavour: pytorchjob; leave it out"))
    return Completed(
        section=None if section is None else type(section).model_validate(found),
        notices=tuple(notices),
        problems=tuple(problems),
    )


def check_section(section: Options | None, shape: JobShape) -> Iterator[tuple[Location, str]]:
    """Yield what the options of an engine cannot do for a job."""
    flavour = getattr(section, "flavour", None)
    if flavour in ("pytorchjob", "trainjob") and shape.has_servers:
        yield (
            ("backend",),
            f"a {flavour} has no parameter servers, but the job has fleet_mode: ps; use "
            "fleet_mode: collective, or backend: Kubernetes with flavour: plain or volcano",
        )


def _target(backend: str, key: str, section: Options) -> str | None:
    """Return the option of an engine that a key of ``submit`` stands for."""
    flavour = getattr(section, "flavour", None)
    targets = {
        ("slurm", "priority"): "qos",
        ("slurm", "group"): "account",
        ("kubernetes", "priority"): None if flavour == "trainjob" else "priority_class",
        ("kubernetes", "group"): "queue" if flavour == "volcano" else None,
        ("dlc", "priority"): "priority_class",
    }
    return targets.get((backend, key))


def _spelled(backend: str, value: str) -> str:
    return value if backend == "slurm" else value.lower().replace("_", "-")
