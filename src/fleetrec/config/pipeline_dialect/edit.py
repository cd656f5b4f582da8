"""Change a pipeline from the command line: ``--edit_config_json``, ``--train_config.x=y``.

A path is a list of names separated by dots. A name may carry a selector in brackets: a number, a
slice, or a condition (``feature_configs[input_names[0]=site_id].embedding_dim``) that picks all
elements for which it holds.
"""

import dataclasses
import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fleetrec.config.pipeline_dialect.message import Message
from fleetrec.config.pipeline_dialect.plain import Shape, shapes
from fleetrec.config.pipeline_dialect.text import Node, Tree, parse_tree
from fleetrec.config.problems import hint
from fleetrec.core.errors import ConfigError

PREFIXES = (
    "data_config",
    "train_config",
    "feature_config",
    "model_config",
    "export_config",
    "eval_config",
)
_STEP = re.compile(r"(?P<name>\w+)(\[(?P<selector>.*)\])?")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Set the field at ``path`` to ``value``; ``origin`` is the user's argument."""

    path: str
    value: str
    origin: str

    def error(self, text: str) -> ConfigError:
        """Return the error about this edit."""
        return ConfigError([f"{self.origin}: {text}"])


def edits_of_json(text: str) -> list[Edit]:
    """Read ``--edit_config_json``: an object of paths and values."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError([f"--edit_config_json: not JSON: {error}"]) from error
    if not isinstance(found, dict):
        raise ConfigError([f"--edit_config_json: expected an object, got {text!r}"])
    pairs = [pair for path, value in found.items() for pair in _pairs(path, _text(value))]
    return [
        Edit(path=path, value=value, origin=f"--edit_config_json {path}={value}")
        for path, value in pairs
    ]


def _pairs(path: str, value: str) -> list[tuple[str, str]]:
    """Return paths and values of an entry; EasyRec separates several by semicolons."""
    paths = path.split(";")
    if len(paths) == 1:
        return [(path, value)]
    values = value.split(";")
    if len(values) != len(paths):
        text = f"--edit_config_json {path}: expected {len(paths)} values separated by ;"
        raise ConfigError([f"{text}, got {value!r}"])
    return list(zip((one.strip() for one in paths), values, strict=True))


def edits_of_arguments(arguments: list[str]) -> list[Edit]:
    """Read ``--train_config.num_steps=100`` or the same with a blank."""
    edits: list[Edit] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        path, equals, value = argument.removeprefix("--").partition("=")
        section = path.partition(".")[0]
        if not argument.startswith("--") or "." not in path or section not in PREFIXES:
            known = [f"--{prefix}.<field>" for prefix in PREFIXES]
            raise ConfigError([f"{argument}: unknown argument{hint(f'--{section}', known)}"])
        if not equals:
            if not rest:
                raise ConfigError([f"{argument}: expected a value after it"])
            value = rest.pop(0)
        value = value.strip().strip("\"'")
        edits.append(Edit(path=path, value=value, origin=f"--{path}={value}"))
    return edits


def apply_edits(tree: Tree, edits: list[Edit], schema: type[Message]) -> None:
    """Apply edits to a tree; raises ConfigError with all edits that fail."""
    problems: list[str] = []
    for edit in edits:
        try:
            _apply(tree, schema, _steps(edit), edit)
        except ConfigError as error:
            problems.extend(error.problems)
    if problems:
        raise ConfigError(problems)


def set_field(tree: Tree, name: str, text: str, *, origin: str) -> None:
    """Set a scalar at the top of a tree, as a flag does."""
    tree[name] = [Node(kind="given", text=text, origin=origin)]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    name: str
    selector: str | None


def _steps(edit: Edit) -> list[_Step]:
    """Split a path at its dots, except those in brackets."""
    words, depth = [""], 0
    for letter in edit.path:
        depth += (letter == "[") - (letter == "]")
        if letter == "." and depth == 0:
            words.append("")
        else:
            words[-1] += letter
    steps = []
    for word in words:
        match = _STEP.fullmatch(word)
        if match is None:
            raise edit.error(f"expected names separated by dots, got {word!r}")
        steps.append(_Step(name=match["name"], selector=match["selector"]))
    return steps


def _apply(tree: Tree, schema: type[Message], steps: list[_Step], edit: Edit) -> None:
    step, rest = steps[0], steps[1:]
    shape = _shape(step.name, schema, edit)
    if not rest:
        _assign(tree, step, shape, edit)
        _clear_rivals(tree, step.name, schema)
        return
    if shape.message is None:
        raise edit.error(f"{step.name} holds no fields, but {rest[0].name!r} lies below it")
    nodes = tree.setdefault(step.name, [])
    if not nodes and not shape.is_repeated:
        nodes.append(Node(kind="message", origin=edit.origin))
    _clear_rivals(tree, step.name, schema)
    if shape.is_repeated and step.selector is None:
        raise edit.error(f"{step.name} may hold several; say which, as in {step.name}[0]")
    for node in [nodes[i] for i in _selected(nodes, step, shape, edit)]:
        _apply(node.tree, shape.message, rest, edit)


def _shape(name: str, schema: type[Message], edit: Edit) -> Shape:
    known = shapes(schema)
    if name not in known:
        raise edit.error(f"unknown field {name!r}{hint(name, known)}")
    return known[name]


def _assign(tree: Tree, step: _Step, shape: Shape, edit: Edit) -> None:
    nodes = tree.setdefault(step.name, [])
    if step.selector is not None:
        for index in _selected(nodes, step, shape, edit):
            nodes[index] = _node(shape, edit)
    elif shape.is_repeated:
        parsed = parse_tree(f"x: {edit.value}" if edit.value else "", where=edit.origin)
        found = parsed.get("x", [])
        tree[step.name] = [
            dataclasses.replace(node, line=None, column=None, origin=edit.origin) for node in found
        ]
    else:
        tree[step.name] = [_node(shape, edit)]


def _node(shape: Shape, edit: Edit) -> Node:
    if shape.message is None:
        return Node(kind="given", text=edit.value, origin=edit.origin)
    inner = edit.value.strip()
    if inner.startswith("{") and inner.endswith("}"):
        inner = inner[1:-1]
    return Node(kind="message", tree=parse_tree(inner, where=edit.origin), origin=edit.origin)


def _clear_rivals(tree: Tree, name: str, schema: type[Message]) -> None:
    """Remove the other members of a oneof."""
    for names in schema.oneofs:
        if name in names:
            for rival in names:
                if rival != name:
                    tree.pop(rival, None)


def _selected(nodes: list[Node], step: _Step, shape: Shape, edit: Edit) -> list[int]:
    """Return which elements a selector picks."""
    selector = step.selector
    if selector is None:
        return list(range(len(nodes)))
    if re.fullmatch(r"-?\d+", selector):
        index = int(selector)
        if not -len(nodes) <= index < len(nodes):
            raise edit.error(f"{step.name} has {len(nodes)} elements, none is [{index}]")
        return [index % len(nodes)]
    if match := re.fullmatch(r"(-?\d+)?:(-?\d+)?", selector):
        begin, end = (None if text is None else int(text) for text in match.groups())
        return list(range(len(nodes))[begin:end])
    match = re.fullmatch(r"(?P<path>.+?)(?P<sign>>=|<=|>|<|=)(?P<value>[^<>=]*)", selector)
    if match is None or shape.message is None:
        raise edit.error(f"{step.name}[{selector}]: expected a number, a slice or a condition")
    condition = dataclasses.replace(edit, path=match["path"])
    steps = _steps(condition)
    found = [
        index
        for index, node in enumerate(nodes)
        if _holds(node.tree, shape.message, steps, match, edit)
    ]
    if not found:
        raise edit.error(f"of {len(nodes)} elements of {step.name} none meets [{selector}]")
    return found


def _holds(
    tree: Tree, schema: type[Message], steps: list[_Step], match: re.Match[str], edit: Edit
) -> bool:
    compare = _comparison(match["sign"])
    for found, kind in _look(tree, schema, steps, edit):
        if found is None:  # not written, and without a default
            continue
        try:
            value: Any = kind(match["value"]) if kind in (int, float) else match["value"]
            written: Any = kind(found) if kind in (int, float) else str(found)
        except ValueError as error:
            raise edit.error(f"{match['path']}: expected a number, got {match[0]!r}") from error
        if compare(written, value):
            return True
    return False


def _look(
    tree: Tree, schema: type[Message], steps: list[_Step], edit: Edit
) -> Iterator[tuple[Any, Any]]:
    """Yield the values at a path, or the default where none was written, with their type."""
    step, rest = steps[0], steps[1:]
    shape = _shape(step.name, schema, edit)
    nodes = tree.get(step.name, [])
    if not nodes and not shape.is_repeated and not rest:
        yield shape.field.default, shape.type
        return
    if step.selector is not None:
        if not re.fullmatch(r"-?\d+", step.selector):
            raise edit.error(f"{step.name}[{step.selector}]: expected a number in a condition")
        index = int(step.selector)
        nodes = nodes[index:][:1] if index >= 0 else nodes[index : index + 1 or None]
    for node in nodes:
        if rest and shape.message is not None:
            yield from _look(node.tree, shape.message, rest, edit)
        else:
            yield node.text, shape.type


def _comparison(sign: str) -> Callable[[Any, Any], bool]:
    found: Mapping[str, Callable[[Any, Any], bool]] = {
        ">=": operator.ge,
        "<=": operator.le,
        ">": operator.gt,
        "<": operator.lt,
        "=": operator.eq,
    }
    return found[sign]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value)
