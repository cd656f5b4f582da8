"""The passes that a run has begun, each frozen in a file: which data it is made of."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError, MissingFileError
from fleetrec.data.files import DataFile, fingerprint
from fleetrec.train.delta_chain import DAY, PASSES
from fleetrec.train.pass_plan import PassSpec, PhaseFiles

FORMAT_VERSION = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class LateFile:
    """A file that appeared in a folder after the pass of that folder had begun."""

    file: DataFile
    of: str  # the name of that pass
    is_trained: bool  # with the pass that lists it; else it was skipped


@dataclasses.dataclass(frozen=True, kw_only=True)
class FrozenPass:
    """A pass, the late files that it lists, and when its data was there (seconds since 1970).

    ``positions`` is where a stream continues after the pass, by partition.
    """

    spec: PassSpec
    late: tuple[LateFile, ...] = ()
    arrived_at: float | None = None
    positions: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        spec = dataclasses.replace(self.spec, arrived_at=self.arrived_at)
        object.__setattr__(self, "spec", spec)

    def to_bytes(self) -> bytes:
        """Return the pass as JSON; see docs/formats/pass-manifest.md."""
        spec = self.spec
        plain = {
            "format_version": FORMAT_VERSION,
            "name": spec.name,
            "index": spec.index,
            "day": spec.day,
            "number": spec.number,
            "ends_day": spec.ends_day,
            "event_time": spec.event_time,
            "end_time": spec.end_time,
            "files": _plain_files(spec.files),
            "evaluation_files": _plain_files(spec.evaluation_files),
            "late": [
                {**_plain_file(one.file), "of": one.of, "is_trained": one.is_trained}
                for one in self.late
            ],
            "arrived_at": self.arrived_at,
            "positions": dict(self.positions),
        }
        return (json.dumps(plain, indent=1) + "\n").encode()

    @classmethod
    def from_bytes(cls, content: bytes, *, where: str) -> "FrozenPass":
        """Rebuild a pass from ``to_bytes``; ``where`` is named in errors."""
        try:
            plain = json.loads(content)
            if plain["format_version"] != FORMAT_VERSION:
                raise CheckpointError(
                    f"{where}: written in format {plain['format_version']}, this version reads "
                    f"format {FORMAT_VERSION}"
                )
            files = _read_files(plain["files"])
            return cls(
                spec=PassSpec(
                    name=plain["name"],
                    index=plain["index"],
                    day=plain["day"],
                    number=plain["number"],
                    ends_day=plain["ends_day"],
                    event_time=plain["event_time"],
                    end_time=plain["end_time"],
                    files=files,
                    fingerprint=fingerprints(files),
                    evaluation_files=_read_files(plain["evaluation_files"]),
                ),
                late=tuple(
                    LateFile(file=_read_file(one), of=one["of"], is_trained=one["is_trained"])
                    for one in plain["late"]
                ),
                arrived_at=plain["arrived_at"],
                positions=plain["positions"],
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(f"{where}: damaged: {type(error).__name__}: {error}") from error


class PassLog:
    """Frozen passes below ``<url>/passes``.

    They are called ``<day>/<number>`` where a schedule says what comes next, and by their index
    where that is not known before.
    """

    def __init__(self, url: str) -> None:
        self._url = storage.join(url, PASSES)

    def write(self, frozen: FrozenPass) -> None:
        """Store a pass by day and number, in place of an earlier version of it."""
        storage.write_bytes(self._path(frozen.spec.day, frozen.spec.number), frozen.to_bytes())

    def write_by_index(self, frozen: FrozenPass) -> None:
        """Store a pass by its index."""
        storage.write_bytes(self._path("", frozen.spec.index), frozen.to_bytes())

    def read(self, *, day: str, number: int) -> FrozenPass | None:
        """Return a pass; None if it has not begun."""
        return self._read(self._path(day, number))

    def read_by_index(self, index: int) -> FrozenPass | None:
        """Return a pass that was stored by its index; None if it has not begun."""
        return self._read(self._path("", index))

    def _read(self, path: str) -> FrozenPass | None:
        try:
            content = storage.read_bytes(path)
        except MissingFileError:
            return None
        return FrozenPass.from_bytes(content, where=storage.shown(path))

    def has_any(self) -> bool:
        """Return whether a pass has begun."""
        return bool(storage.list_names(self._url))

    def last(self) -> FrozenPass | None:
        """Return the last pass of the last day; None if no pass with a day has begun."""
        days = [name for name in storage.list_names(self._url) if DAY.fullmatch(name)]
        for day in reversed(days):
            names = storage.list_names(storage.join(self._url, day))
            stems = [name.removesuffix(".json") for name in names if name.endswith(".json")]
            numbers = [int(stem) for stem in stems if stem.isdecimal()]
            if numbers:
                return self.read(day=day, number=max(numbers))
        return None

    def _path(self, day: str, number: int) -> str:
        return storage.join(self._url, day, f"{number}.json")


def fingerprints(files: PhaseFiles) -> dict[str, str]:
    """Return a digest of the files of every phase."""
    return {phase: fingerprint(some) for phase, some in files.items()}


def _plain_files(files: PhaseFiles) -> dict[str, list[dict[str, Any]]]:
    return {phase: [_plain_file(one) for one in some] for phase, some in files.items()}


def _plain_file(file: DataFile) -> dict[str, Any]:
    return {"path": file.path, "name": file.name, "num_bytes": file.num_bytes}


def _read_files(plain: Mapping[str, Sequence[Mapping[str, Any]]]) -> PhaseFiles:
    return {phase: tuple(map(_read_file, some)) for phase, some in plain.items()}


def _read_file(plain: Mapping[str, Any]) -> DataFile:
    return DataFile(path=plain["path"], name=plain["name"], num_bytes=plain["num_bytes"])
