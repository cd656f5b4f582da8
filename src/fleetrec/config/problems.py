"""Collect and format configuration errors, with hints."""

import difflib
import re
from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from fleetrec.config.document import Document, Location
from fleetrec.config.options import Options
from fleetrec.core.errors import ConfigError
from fleetrec.core.storage import shown


class Problems:
    """Collects problems, so that all of a file are reported at once."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._found: dict[str, tuple[int, int]] = {}
        self._locations: set[Location] = set()

    def note(self, location: Location, text: str) -> None:
        """Add one problem of the value at ``location``."""
        self._found[self.spell(location, text)] = self._document.order(location)
        self._locations.add(location)

    def has(self, location: Location) -> bool:
        """Return whether there is a problem of the value at ``location``."""
        return location in self._locations

    def spell(self, location: Location, text: str) -> str:
        """Write ``file:line: path: text``."""
        return f"{self._document.where(location)}: {self._path(location)}: {text}"

    def note_validation(self, error: ValidationError, *, at: Location, want: type[Options]) -> None:
        """Add what pydantic found in the mapping at ``at``."""
        for detail in error.errors():
            self._note_detail(detail, at=at, want=want)

    def check(self) -> None:
        """Raise one ConfigError with all problems, in the order of their lines, if there is any."""
        if self._found:
            raise ConfigError(sorted(self._found, key=lambda text: self._found[text]))

    def _note_detail(self, detail: ErrorDetails, *, at: Location, want: type[Options]) -> None:
        location = (*at, *detail["loc"])
        if detail["type"] == "extra_forbidden":
            key = str(location[-1])
            known = _keys_at(want, detail["loc"][:-1])
            self.note(location, f"unknown key{hint(key, known)}")
        elif detail["type"] == "missing":
            self.note(location, "required, but missing")
        elif detail["type"] == "literal_error":
            known = _literals(detail)
            came = str(detail["input"])
            self.note(location, f"{_sentence(detail)}, got {came!r}{meant(came, known)}")
        elif detail["type"] == "too_short":
            least = detail["ctx"]["min_length"]
            words = "entry" if least == 1 else "entries"
            self.note(location, f"expected at least {least} {words}, got {detail['input']!r}")
        else:
            self.note(location, f"{_sentence(detail)}, got {shown(repr(detail['input']))}")

    def _path(self, location: Location) -> str:
        """Write ``('runner', 0, 'epochs')`` as ``runner.single_cpu_train.epochs``."""
        words: list[str] = []
        value: Any = self._document.data
        for step in location:
            value = _child(value, step)
            name = value.get("name") if isinstance(value, dict) else None
            if isinstance(step, int):
                step = name if isinstance(name, str) else f"[{step}]"
            words.append(str(step))
        return ".".join(words).replace(".[", "[") or "file"


def hint(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean ...?`` or the list of what is known."""
    names = sorted(known)
    listed = f"; known: {', '.join(names)}" if names else ""
    return meant(word, names) or listed


def meant(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean ...?`` if something known is close to ``word``."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _child(value: Any, step: str | int) -> Any:
    if isinstance(value, dict) and isinstance(step, str):
        return value.get(step)
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return value[step]
    return None


def _sentence(detail: ErrorDetails) -> str:
    text = detail["msg"].removeprefix("Value error, ")
    text = text.replace("Input should be", "expected")
    return text[0].lower() + text[1:] if text[:1].isupper() and text[1:2].islower() else text


def _literals(detail: ErrorDetails) -> list[str]:
    return re.findall(r"'([^']*)'", str(detail.get("ctx", {}).get("expected", "")))


def _keys_at(want: type[Options], loc: tuple[int | str, ...]) -> list[str]:
    """Return the keys a file may write in the part of ``want`` that ``loc`` leads to."""
    for step in loc:
        if isinstance(step, int):
            continue
        field = next(
            (f for n, f in want.model_fields.items() if step in (f.alias, n)),
            None,
        )
        inner = None if field is None else _options_in(field.annotation)
        if inner is None:
            return []
        want = inner
    return [field.alias or name for name, field in want.model_fields.items()]


def _options_in(annotation: Any) -> type[Options] | None:
    if isinstance(annotation, type) and issubclass(annotation, Options):
        return annotation
    found = (_options_in(arg) for arg in getattr(annotation, "__args__", ()))
    return next((options for options in found if options is not None), None)
