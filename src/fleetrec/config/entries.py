"""Entries: which ids get a row, as Paddle's sparse embeddings have it."""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from fleetrec.config.problems import hint
from fleetrec.config.tables import MAX_COUNT, AdmissionOptions


@dataclasses.dataclass(frozen=True, slots=True)
class CountFilterEntry:
    """An id gets a row at its ``count_filter``-th impression."""

    count_filter: int

    def __post_init__(self) -> None:
        is_whole = isinstance(self.count_filter, int) and not isinstance(self.count_filter, bool)
        if not is_whole or not 0 <= self.count_filter <= MAX_COUNT:
            raise ValueError(
                f"CountFilterEntry: expected a whole number from 0 to {MAX_COUNT}, got "
                f"{self.count_filter!r}"
            )

    @property
    def admission(self) -> AdmissionOptions:
        """Return the rule of admission."""
        if self.count_filter <= 1:
            return AdmissionOptions()
        return AdmissionOptions(kind="count", threshold=self.count_filter)


@dataclasses.dataclass(frozen=True, slots=True)
class ProbabilityEntry:
    """An id gets a row with this probability at each impression."""

    probability: float

    def __post_init__(self) -> None:
        is_number = isinstance(self.probability, float | int)
        if not is_number or not 0 < self.probability <= 1:
            raise ValueError(
                "ProbabilityEntry: expected a probability above 0 and up to 1, got "
                f"{self.probability!r}"
            )

    @property
    def admission(self) -> AdmissionOptions:
        """Return the rule of admission."""
        return AdmissionOptions(kind="probability", threshold=self.probability)


@dataclasses.dataclass(frozen=True, slots=True)
class ShowClickEntry:
    """Shows and clicks of every row are counted; ``click_name`` is the label that counts clicks.

    Every impression is one show, so ``show_name`` is not looked up.
    """

    show_name: str
    click_name: str

    def __post_init__(self) -> None:
        for name in (self.show_name, self.click_name):
            if not isinstance(name, str) or not name:
                raise ValueError(f"ShowClickEntry: expected the names of two inputs, got {name!r}")

    @property
    def admission(self) -> None:
        """Return None: every id gets a row, unless there is another rule."""
        return


Entry = CountFilterEntry | ProbabilityEntry | ShowClickEntry

_KEYS: Mapping[str, tuple[type[Entry], tuple[str, ...]]] = MappingProxyType(
    {
        "CountFilterEntry": (CountFilterEntry, ("count",)),
        "ProbabilityEntry": (ProbabilityEntry, ("probability",)),
        "ShowClickEntry": (ShowClickEntry, ("show", "click")),
    }
)
_TEXTS = MappingProxyType(
    {
        "count_filter_entry": "CountFilterEntry",
        "probability_entry": "ProbabilityEntry",
        "show_click_entry": "ShowClickEntry",
    }
)


def read_entry(value: Any) -> Entry:
    """Read ``count_filter_entry:10`` or ``{class: CountFilterEntry, count: 10}``.

    Raises:
        ValueError: It is neither.
    """
    if isinstance(value, CountFilterEntry | ProbabilityEntry | ShowClickEntry):
        return value
    if isinstance(value, str):
        kind, *values = value.split(":")
        if kind not in _TEXTS:
            raise ValueError(f"no entry is called {kind!r}{hint(kind, _TEXTS)}")
        return _make(_TEXTS[kind], [_number(one) for one in values])
    if not isinstance(value, dict) or "class" not in value:
        raise ValueError(
            "expected an entry such as count_filter_entry:10 or {class: CountFilterEntry, "
            f"count: 10}}, got {value!r}"
        )
    name = str(value["class"])
    if name not in _KEYS:
        raise ValueError(f"class: no entry is called {name!r}{hint(name, _KEYS)}")
    _, keys = _KEYS[name]
    unknown = sorted(set(map(str, value)) - {"class", *keys})
    if unknown:
        raise ValueError(f"{name}: unknown key {unknown[0]!r}{hint(unknown[0], keys)}")
    missing = [key for key in keys if key not in value]
    if missing:
        raise ValueError(f"{name}: {missing[0]} is required, but missing")
    return _make(name, [value[key] for key in keys])


def _make(name: str, values: list[Any]) -> Entry:
    kind, keys = _KEYS[name]
    if len(values) != len(keys):
        raise ValueError(f"{name}: expected {' and '.join(keys)}, got {len(values)} values")
    return kind(*values)


def _number(text: str) -> Any:
    """Return a number, or the text if it is none."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
