"""YAML text as plain data that remembers its line numbers."""

import dataclasses
import warnings
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import ConstructorError
from ruamel.yaml.error import MantissaNoDotYAML1_1Warning, MarkedYAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from fleetrec.core.errors import ConfigError

Location = tuple[str | int, ...]

# Aliases may be nested ("billion laughs"); real jobs are far below this limit.
MAX_NODES = 100_000

_TAG = "tag:yaml.org,2002:"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Document:
    """A parsed file: its data, the line of every value, and notices.

    ``columns`` are known in some dialects only. ``origins`` name the sources of values that are not
    in the file.
    """

    path: Path
    data: Any
    lines: dict[Location, int]
    columns: dict[Location, int] = dataclasses.field(default_factory=dict)
    origins: dict[Location, str] = dataclasses.field(default_factory=dict)
    notices: tuple[str, ...] = ()
    overridden: frozenset[Location] = frozenset()

    def where(self, location: Location) -> str:
        """Return ``file:line`` of a value, or of the nearest parent that was written."""
        parents = _parents(location)
        if not self.overridden.isdisjoint(parents):
            return "-o"
        for parent in parents:
            if parent in self.origins:
                return self.origins[parent]
            if parent in self.lines:
                column = f":{self.columns[parent]}" if parent in self.columns else ""
                return f"{self.path}:{self.lines[parent]}{column}"
        return str(self.path)

    def order(self, location: Location) -> tuple[int, int]:
        """Return line and column of a value for sorting; 0 if it is not in the file."""
        for parent in _parents(location):
            if parent in self.origins or parent in self.overridden:
                return (0, 0)
            if parent in self.lines:
                return (self.lines[parent], self.columns.get(parent, 0))
        return (0, 0)


def read_document(path: Path) -> Document:
    """Read one YAML file. Of duplicate keys the last wins, with a notice."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError([f"{path}: no such file"]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"{path}: cannot be read: {error}"]) from error
    return parse_document(text, path=path)


def parse_document(text: str, *, path: Path) -> Document:
    """Parse YAML text; ``path`` is only named in messages."""
    reader = _Reader(path)
    data = reader.read(text)
    return Document(path=path, data=data, lines=reader.lines, notices=tuple(reader.notices))


def parse_value(text: str) -> Any:
    """Parse the value of a ``key=value`` override by the rules of the file."""
    return parse_document(text, path=Path("-o")).data


def _parents(location: Location) -> list[Location]:
    """Return a location and all above it, the nearest first."""
    return [location[:length] for length in range(len(location), -1, -1)]


class _Reader:
    """Walks the node tree, so that lines are known and duplicate keys are found."""

    def __init__(self, path: Path) -> None:
        self.lines: dict[Location, int] = {}
        self.notices: list[str] = []
        self._path = path
        self._num_nodes = 0
        self._yaml = YAML(typ="safe", pure=True)
        self._yaml.version = (1, 1)  # as PyYAML reads: yes/no are booleans

    def read(self, text: str) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MantissaNoDotYAML1_1Warning)
                node = self._yaml.compose(text)
                return None if node is None else self._value(node, ())
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = "" if mark is None else f":{mark.line + 1}"
            raise ConfigError(
                [f"{self._path}{line}: not valid YAML: {error.problem or error.context}"]
            ) from error
        except ReaderError as error:
            number = text.count("\n", 0, error.position) + 1
            raise ConfigError(
                [f"{self._path}:{number}: not valid YAML: a character that is not text"]
            ) from error
        except RecursionError:  # also an alias inside its own anchor
            raise ConfigError([f"{self._path}: nested too deeply; is it a job file?"]) from None

    def _value(self, node: Node, at: Location) -> Any:
        self._num_nodes += 1
        if self._num_nodes > MAX_NODES:
            raise ConfigError([f"{self._path}: more than {MAX_NODES} values; is it a job file?"])
        self.lines.setdefault(at, node.start_mark.line + 1)
        if isinstance(node, ScalarNode):
            return self._scalar(node)
        if node.tag not in (f"{_TAG}map", f"{_TAG}seq"):
            raise self._fault(
                node, f"{_tag(node)} is not allowed; a job file holds plain data only"
            )
        if isinstance(node, MappingNode):
            return self._mapping(node, at)
        assert isinstance(node, SequenceNode)
        return [self._value(item, (*at, i)) for i, item in enumerate(node.value)]

    def _mapping(self, node: MappingNode, at: Location) -> dict[str, Any]:
        inherited: dict[str, Any] = {}
        mapping: dict[str, Any] = {}
        for _, value_node in (pair for pair in node.value if _is_merge(pair[0])):
            inherited = self._inherited(value_node, at) | inherited
        for key_node, value_node in (pair for pair in node.value if not _is_merge(pair[0])):
            if not isinstance(key_node, ScalarNode):
                raise self._fault(key_node, "a key must be plain text")
            key = str(key_node.value)
            line = key_node.start_mark.line + 1
            if key in mapping:
                first = self.lines[(*at, key)]
                self.notices.append(
                    f"{self._path}:{line}: {key!r} is written twice (first in line {first}); "
                    "the last one counts"
                )
            self.lines[(*at, key)] = line
            mapping[key] = self._value(value_node, (*at, key))
        return inherited | mapping

    def _inherited(self, node: Node, at: Location) -> dict[str, Any]:
        """Return the keys that ``<<`` takes over; of several mappings the first wins."""
        sources = node.value if isinstance(node, SequenceNode) else [node]
        keys: dict[str, Any] = {}
        for source in reversed(sources):
            if not isinstance(source, MappingNode):
                raise self._fault(source, "<< takes over the keys of mappings only")
            keys |= self._value(source, at)
        return keys

    def _scalar(self, node: ScalarNode) -> Any:
        if node.tag == "tag:yaml.org,2002:timestamp":  # 20200101 and 2020-01-01 are names here
            return node.value
        try:
            return self._yaml.constructor.construct_object(node)
        except (ConstructorError, ValueError) as error:
            raise self._fault(node, f"cannot read {node.value!r} as {_tag(node)}") from error

    def _fault(self, node: Node, text: str) -> ConfigError:
        return ConfigError([f"{self._path}:{node.start_mark.line + 1}: {text}"])


def _is_merge(node: Node) -> bool:
    return bool(node.tag == f"{_TAG}merge")


def _tag(node: Node) -> str:
    return str(node.tag).replace(_TAG, "!!")
