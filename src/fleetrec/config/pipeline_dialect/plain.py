"""From a tree to plain data that matches the schema, reporting problems."""

import dataclasses
import math
import types
from collections.abc import Iterator
from typing import Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from fleetrec.config.document import Document, Location
from fleetrec.config.pipeline_dialect.message import Message, Opaque, support_of
from fleetrec.config.pipeline_dialect.text import Node, Tree
from fleetrec.config.problems import Problems, hint, meant

Meaning = Literal["honoured", "differs", "ignored"]
TRUE, FALSE = ("true", "True", "t", "1"), ("false", "False", "f", "0")


class Shape:
    """What a field holds: one value or several, of which type."""

    def __init__(self, field: FieldInfo) -> None:
        self.field = field
        held = _without_none(field.annotation)
        self.is_repeated = get_origin(held) is tuple
        self.type: Any = get_args(held)[0] if self.is_repeated else held

    @property
    def message(self) -> type[Message] | None:
        """Return the message that the field holds, or None if it holds scalars."""
        is_message = isinstance(self.type, type) and issubclass(self.type, Message)
        return self.type if is_message else None


def shapes(schema: type[Message]) -> dict[str, Shape]:
    """Return the fields of a message by the names that files use."""
    return {field.alias or name: Shape(field) for name, field in schema.model_fields.items()}


class Plainer:
    """Walks a tree along its schema, and records the location of every value in the document."""

    def __init__(self, document: Document, problems: Problems) -> None:
        self._document = document
        self._problems = problems
        self.notices: list[str] = []
        self.fields: dict[str, Meaning] = {}  # that are given, without their indexes

    def message(self, tree: Tree, schema: type[Message], at: Location) -> dict[str, Any]:
        """Return the fields of a message; those with problems are left out."""
        if schema is Opaque:
            return {}
        known = shapes(schema)
        plain: dict[str, Any] = {}
        for name, nodes in tree.items():
            self._see(nodes[0], (*at, name))
            if name not in known:
                self._problems.note((*at, name), f"unknown field{hint(name, known)}")
                continue
            plain |= self._field(name, nodes, known[name], at)
        return plain

    def _field(self, name: str, nodes: list[Node], shape: Shape, at: Location) -> dict[str, Any]:
        here: Location = (*at, name)
        if shape.is_repeated:
            values = [
                value
                for index, node in enumerate(nodes)
                for value in self._values(node, shape, (*here, index))
            ]
            found: Any = values
        else:
            values = list(self._values(self._only(nodes, shape, here), shape, here))
            if not values:
                return {}
            found = values[0]
        self._check_support(found, shape, here)
        return {name: found}

    def _only(self, nodes: list[Node], shape: Shape, at: Location) -> Node:
        """Return the value of a field that is given several times, as protobuf merges them."""
        if len(nodes) == 1:
            return nodes[0]
        if shape.message is None or any(node.kind != "message" for node in nodes):
            self.notices.append(
                self._problems.spell(at, f"given {len(nodes)} times; the last counts")
            )
            return nodes[-1]
        merged: Tree = {}
        for node in nodes:
            for name, inner in node.tree.items():
                merged.setdefault(name, []).extend(inner)
        return dataclasses.replace(nodes[-1], tree=merged)

    def _values(self, node: Node, shape: Shape, at: Location) -> Iterator[Any]:
        """Yield the value of a node; if it is wrong, report a problem and yield nothing."""
        self._see(node, at)
        if shape.message is not None:
            if node.kind != "message":
                self._problems.note(at, f"expected a message in braces, got {node.shown}")
                return
            yield self.message(node.tree, shape.message, at)
            return
        try:
            yield _scalar(node, shape.type)
        except ValueError as error:
            self._problems.note(at, f"{error}, got {node.shown}{_meant(node, shape.type)}")

    def _see(self, node: Node, at: Location) -> None:
        if node.line is not None and node.column is not None:
            self._document.lines[at], self._document.columns[at] = node.line, node.column
        elif node.origin:
            self._document.origins[at] = node.origin

    def _check_support(self, value: Any, shape: Shape, at: Location) -> None:
        support = support_of(shape.field)
        if shape.message is None or support == "idle":
            path = ".".join(str(step) for step in at if isinstance(step, str))
            self.fields[path] = "ignored" if support == "idle" else "honoured"
        if support == "idle":
            self.notices.append(self._problems.spell(at, "has no effect here"))
        default = shape.field.default
        is_default = (list(default) if isinstance(default, tuple) else default) == value
        if support == "later" and not is_default:
            self._problems.note(at, "is known, but not supported yet; remove it")


def _without_none(annotation: Any) -> Any:
    if get_origin(annotation) in (types.UnionType, Union):
        return next(arg for arg in get_args(annotation) if arg is not type(None))
    return annotation


def _scalar(node: Node, kind: Any) -> Any:
    """Return the value of a node by the type of its field, or raise ValueError."""
    if get_origin(kind) is Literal:
        return _enum(node, get_args(kind))
    if kind is bool:
        if node.kind in ("word", "number", "given") and node.text in (*TRUE, *FALSE):
            return node.text in TRUE
        raise ValueError("expected true or false")
    if kind is str:
        if node.kind in ("text", "given"):
            return node.text
        raise ValueError("expected text in quotes")
    if node.kind in ("number", "given", "word"):
        try:
            number = int(node.text, 0) if kind is int else float(node.text.removesuffix("f"))
        except ValueError:
            number = math.nan
        if math.isfinite(number):
            return number
    raise ValueError("expected a whole number" if kind is int else "expected a number")


def _enum(node: Node, names: tuple[str, ...]) -> str:
    if node.kind in ("word", "text", "given") and node.text in names:
        return node.text
    raise ValueError(f"expected one of {', '.join(names)}")


def _meant(node: Node, kind: Any) -> str:
    return meant(node.text, get_args(kind)) if get_origin(kind) is Literal else ""
