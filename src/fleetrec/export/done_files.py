"""Done files: what a run has published, in order; docs/formats/done-files.md. No torch."""

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError, MissingFileError
from fleetrec.core.fault_points import fault_point

CHECKPOINTS = "donefile.txt"
BASES = "base_donefile.txt"
DELTAS = "patch_donefile.txt"
END_OF_DAY = -1  # the pass of a checkpoint at the end of a day
_NUM_COLUMNS = 5

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointDone:
    """A checkpoint; ``key`` is its event time, ``pass_number`` its pass within the day."""

    day: str
    key: int
    path: str
    pass_number: int = END_OF_DAY

    def to_line(self) -> str:
        """Return the line of the file."""
        return f"{self.day}\t{self.key}\t{self.path}\t{self.pass_number}\t0"

    @classmethod
    def from_line(cls, line: str) -> "CheckpointDone":
        """Rebuild an entry from ``to_line``; raises ValueError."""
        columns = line.split("\t")
        if len(columns) != _NUM_COLUMNS:
            raise ValueError(f"expected {_NUM_COLUMNS} columns, got {len(columns)}")
        day, key, path, pass_number, _ = columns
        return cls(day=day, key=int(key), path=path, pass_number=int(pass_number))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelDone:
    """A serving model.

    ``key`` is the id of its base. ``path`` is relative to the folder of the done file; ``input`` is
    the same as the run was configured. Metrics do not count when entries are compared.
    """

    id: int
    key: int
    input: str
    path: str
    monitor_data: Mapping[str, float | None] = dataclasses.field(
        default_factory=dict, compare=False
    )

    def to_line(self) -> str:
        """Return the line of the file."""
        metrics = {
            name: value if value is not None and math.isfinite(value) else None
            for name, value in self.monitor_data.items()
        }
        return json.dumps(
            {
                "id": str(self.id),
                "key": str(self.key),
                "input": self.input,
                "path": self.path,
                "monitor_data": metrics,
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_line(cls, line: str) -> "ModelDone":
        """Rebuild an entry from ``to_line``; raises ValueError or KeyError."""
        data: Any = json.loads(line)
        if not isinstance(data, Mapping):
            raise ValueError(f"expected a JSON object, got {type(data).__name__}")
        return cls(
            id=int(data["id"]),
            key=int(data["key"]),
            input=str(data["input"]),
            path=str(data["path"]),
            monitor_data=dict(data.get("monitor_data") or {}),
        )

    def url(self, folder: str) -> str:
        """Return where the model is, for done files in ``folder``."""
        try:
            return storage.resolve(self.path, base=folder)
        except ValueError as error:
            raise CheckpointError(f"{storage.shown(folder)}: a done file: {error}") from error


def read_checkpoints(folder: str) -> list[CheckpointDone]:
    """Return the checkpoints of ``donefile.txt``; none if there is no such file."""
    return _read(folder, CHECKPOINTS, CheckpointDone.from_line)


def read_models(folder: str, kind: Literal["base", "delta"]) -> list[ModelDone]:
    """Return the serving models of a kind; none if there is no such file."""
    return _read(folder, _name_of(kind), ModelDone.from_line)


def add_checkpoint(folder: str, entry: CheckpointDone) -> bool:
    """Append a checkpoint to ``donefile.txt``; returns False if it is there already."""
    return _add(folder, CHECKPOINTS, entry, CheckpointDone.from_line)


def add_model(folder: str, kind: Literal["base", "delta"], entry: ModelDone) -> bool:
    """Append a serving model to its file; returns False if it is there already."""
    return _add(folder, _name_of(kind), entry, ModelDone.from_line)


def _name_of(kind: Literal["base", "delta"]) -> str:
    return BASES if kind == "base" else DELTAS


def _add(
    folder: str, name: str, entry: CheckpointDone | ModelDone, parse: Callable[[str], object]
) -> bool:
    line = entry.to_line()
    if isinstance(entry, CheckpointDone) and set(entry.path) & {"\t", "\n"}:
        raise CheckpointError(
            f"{name}: a path must not hold a tab or a newline, got {entry.path!r}"
        )
    lines = _complete_lines(folder, name)
    if entry in _parsed(folder, name, lines, parse):
        return False
    fault_point("donefile")
    text = "".join(f"{one}\n" for one in [*lines, line])
    storage.write_bytes(storage.join(folder, name), text.encode())
    return True


def _read(folder: str, name: str, parse: Callable[[str], T]) -> list[T]:
    return _parsed(folder, name, _complete_lines(folder, name), parse)


def _complete_lines(folder: str, name: str) -> list[str]:
    """Return the lines that end in a newline: the last may be torn."""
    url = storage.join(folder, name)
    try:
        lines = storage.read_bytes(url).split(b"\n")[:-1]
        return [line.decode() for line in lines]
    except MissingFileError:
        return []
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{storage.shown(url)}: damaged: {error}") from error


def _parsed(folder: str, name: str, lines: Sequence[str], parse: Callable[[str], T]) -> list[T]:
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(parse(line))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            where = storage.shown(storage.join(folder, name))
            raise CheckpointError(f"{where}:{number}: damaged: {error!r}") from error
    return found
