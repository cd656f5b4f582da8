"""From a backend.yaml to typed keys, with every problem found in one go."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from fleetrec.config.cluster.keys import BackendKeys, ConfigKeys, SubmitKeys
from fleetrec.config.cluster.sections import SECTIONS, section_of, section_options
from fleetrec.config.document import Document, Location, read_document
from fleetrec.config.options import Options
from fleetrec.config.problems import Problems, hint
from fleetrec.core.errors import ConfigError

KEYS = ("backend", "cluster_type", "config", "submit", *SECTIONS)

OptionsT = TypeVar("OptionsT", bound=Options)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BackendFile:
    """A decoded backend.yaml: its keys, the options of its engine, and what was found wrong.

    ``keys`` and ``section`` are None if they have problems.
    """

    document: Document
    problems: Problems
    keys: BackendKeys | None
    section: Options | None
    notices: tuple[str, ...] = ()


def decode_backend(path: Path, *, backend: str | None = None) -> BackendFile:
    """Decode a file; ``backend`` replaces the key of that name.

    Raises:
        ConfigError: It cannot be read, or is no mapping. Other problems are collected.
    """
    document = read_document(path)
    if not isinstance(document.data, dict):
        raise ConfigError([f"{path}: expected a mapping with backend, config, submit, ..."])
    document, notices = _with_underscores(document)
    data = dict(document.data)
    if backend is not None:
        data["backend"] = backend
        document = dataclasses.replace(
            document, data=data, origins={**document.origins, ("backend",): "--backend"}
        )
    return _Decoder(document, notices).decode()


class _Decoder:
    """Decodes section by section; a broken section does not hide the problems of the others."""

    def __init__(self, document: Document, notices: tuple[str, ...]) -> None:
        self._document = document
        self._problems = Problems(document)
        self._notices = [*document.notices, *notices]

    def decode(self) -> BackendFile:
        data = self._without_nulls(self._document.data, ())
        for key in data:
            if key not in KEYS:
                self._problems.note((key,), f"unknown key{hint(key, KEYS)}")
        parts = {
            "config": self._section("config", ConfigKeys, data),
            "submit": self._section("submit", SubmitKeys, data),
        }
        names = {key: data[key] for key in ("backend", "cluster_type") if key in data}
        top = self._validate(BackendKeys, names, ())
        section = None
        if top is not None:
            section = self._own_section(top.backend, data)
        keys = None
        if top is not None and None not in parts.values():
            keys = top.model_copy(update=parts)
        return BackendFile(
            document=self._document,
            problems=self._problems,
            keys=keys,
            section=section,
            notices=tuple(self._notices),
        )

    def _own_section(self, backend: str, data: Mapping[str, Any]) -> Options | None:
        own = section_of(backend)
        for name in SECTIONS:
            if name in data and name != own:
                where = self._problems.spell((name,), f"has no effect with backend: {backend}")
                self._notices.append(where)
        return None if own is None else self._section(own, section_options(own), data)

    def _section(self, name: str, want: type[OptionsT], data: Mapping[str, Any]) -> OptionsT | None:
        given = data.get(name, {})
        if not isinstance(given, dict):
            self._problems.note((name,), f"expected a mapping, got {given!r}")
            return None
        return self._validate(want, self._without_nulls(given, (name,)), (name,))

    def _validate(self, want: type[OptionsT], data: Any, at: Location) -> OptionsT | None:
        try:
            return want.model_validate(data)
        except ValidationError as error:
            self._problems.note_validation(error, at=at, want=want)
            return None

    def _without_nulls(self, data: Mapping[str, Any], at: Location) -> dict[str, Any]:
        """Report keys without a value: a forgotten one must not become the text None."""
        for key, value in data.items():
            if value is None:
                text = 'has no value; write "" for an empty one, or delete the line'
                self._problems.note((*at, key), text)
        return {key: value for key, value in data.items() if value is not None}


def _with_underscores(document: Document) -> tuple[Document, tuple[str, ...]]:
    """Return a document in which keys are spelled with ``_``; of two spellings the last wins."""
    data: dict[str, Any] = {}
    lines: dict[Location, int] = {}
    notices: list[str] = []
    for location, line in document.lines.items():
        lines[_spelled(location)] = line
    for key, value in document.data.items():
        name = _underscored(key)
        if not isinstance(value, dict):
            data[name] = value
            continue
        inner: dict[str, Any] = {}
        found: dict[str, int] = {}
        for inner_key, one in value.items():
            spelled, line = _underscored(inner_key), document.lines.get((key, inner_key), 0)
            if spelled in found:
                first, last = sorted((found[spelled], line))
                notices.append(
                    f"{document.path}:{last}: {spelled!r} is written twice (first in line "
                    f"{first}); the last one counts"
                )
                if line < found[spelled]:
                    continue
            inner[spelled], found[spelled] = one, line
            lines[(name, spelled)] = line
        data[name] = inner
    return dataclasses.replace(document, data=data, lines=lines), tuple(notices)


def _spelled(location: Location) -> Location:
    """Return the location of a key of a section in its own spelling; below it are names."""
    return (*(_underscored(step) for step in location[:2]), *location[2:])


def _underscored(step: Any) -> Any:
    return step.replace("-", "_") if isinstance(step, str) else step
