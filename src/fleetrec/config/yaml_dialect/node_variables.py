"""Keys of a job that variables of Paddle's cluster jobs give on a node."""

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

from fleetrec.config.document import Document, Location


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodeVariables:
    """``FLAGS_communicator_*`` and ``CPU_NUM`` of a process."""

    communicator: Mapping[str, str] = dataclasses.field(default_factory=dict)
    num_threads: int | None = None


NO_VARIABLES = NodeVariables()


def with_node_variables(document: Document, variables: NodeVariables) -> Document:
    """Return a job in which variables give the keys that the file does not write.

    Flags become ``communicator`` of runners with servers, and ``CPU_NUM`` becomes ``thread_num``
    of phases.
    """
    if variables == NO_VARIABLES or not isinstance(document.data, dict):
        return document
    data = copy.deepcopy(document.data)
    origins = dict(document.origins)
    for index, runner in _entries(data, "runner"):
        if not _has_servers(runner):
            continue
        flags = runner.setdefault("communicator", {})
        if isinstance(flags, dict):  # else the schema reports it
            for name, value in variables.communicator.items():
                _set_missing(flags, name, value, ("runner", index, "communicator"), origins)
    if variables.num_threads is not None:
        for index, phase in _entries(data, "phase"):
            _set_missing(phase, "thread_num", variables.num_threads, ("phase", index), origins)
    return dataclasses.replace(document, data=data, origins=origins)


def _set_missing(
    section: dict[str, Any],
    key: str,
    value: str | int,
    at: Location,
    origins: dict[Location, str],
) -> None:
    if section.get(key) is None:
        section[key] = value
        origins[(*at, key)] = "environment"


def _entries(data: dict[str, Any], key: str) -> list[tuple[int, dict[str, Any]]]:
    found = data.get(key)
    entries = found if isinstance(found, list) else []
    return [(index, one) for index, one in enumerate(entries) if isinstance(one, dict)]


def _has_servers(runner: Mapping[str, Any]) -> bool:
    words = str(runner.get("class")).lower(), str(runner.get("fleet_mode", "ps")).lower()
    return "cluster" in words[0] and words[1] == "ps"
