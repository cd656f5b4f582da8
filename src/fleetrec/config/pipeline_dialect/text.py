"""Parse pipeline text into a tree that keeps the line and column of every value.

Tokens are those of protobuf's text format, read by its tokenizer; the schema is not checked here.
"""

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias

from google.protobuf.text_format import ParseError, Tokenizer

from fleetrec.core.errors import ConfigError

Tree: TypeAlias = dict[str, list["Node"]]

MAX_DEPTH = 100  # real pipelines are far below this limit


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One value of a field as it was written.

    ``kind`` says how: in quotes, as a number, as a bare word, as a message in braces; or ``given``
    for a value of the command line, which may be any of the first three. ``text`` is the value
    without quotes, ``tree`` the content of the braces.
    """

    kind: Literal["text", "number", "word", "message", "given"]
    text: str = ""
    tree: Tree = dataclasses.field(default_factory=dict)
    line: int | None = None
    column: int | None = None
    origin: str = ""  # the argument that a value comes from, if it is not from the file

    @property
    def shown(self) -> str:
        """Return the value for a message to the user."""
        if self.kind == "message":
            return "{...}"
        return repr(self.text) if self.kind in ("text", "given") else self.text


def read_tree(path: Path) -> Tree:
    """Read a pipeline file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError([f"{path}: no such file"]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"{path}: cannot be read: {error}"]) from error
    return parse_tree(text, where=str(path))


def parse_tree(text: str, *, where: str) -> Tree:
    """Parse pipeline text; ``where`` is only named in messages."""
    tokens = Tokenizer(text.splitlines())
    try:
        tree = _message(tokens, closing=None, depth=0)
    except ParseError as error:
        line, column = error.GetLine(), error.GetColumn()
        place = where if line is None else f"{where}:{line}:{column}"
        reason = str(error).rpartition(" : ")[2].removeprefix("'': ")
        raise ConfigError([f"{place}: not valid pipeline text: {reason}"]) from error
    return tree


def _message(tokens: Tokenizer, *, closing: str | None, depth: int) -> Tree:
    if depth > MAX_DEPTH:
        raise tokens.ParseError("nested too deeply; is it a pipeline?")
    tree: Tree = {}
    while not _is_at(tokens, closing):
        line, column = _place(tokens)
        name = tokens.ConsumeIdentifier()
        has_colon = tokens.TryConsume(":")
        if has_colon and tokens.TryConsume("["):
            values = list(_list(tokens, depth=depth))
        elif has_colon or tokens.token in ("{", "<"):
            values = [_value(tokens, depth=depth)]
        else:
            raise tokens.ParseError(f"expected ':' or '{{' after {name!r}, got {tokens.token!r}")
        at = (dataclasses.replace(value, line=line, column=column) for value in values)
        tree.setdefault(name, []).extend(at)
        if not tokens.TryConsume(","):
            tokens.TryConsume(";")
    return tree


def _is_at(tokens: Tokenizer, closing: str | None) -> bool:
    """Return whether a message ends here, and skip its bracket."""
    if closing is None:
        return bool(tokens.AtEnd())
    if tokens.AtEnd():
        raise tokens.ParseError(f"the text ends, but {closing!r} is missing")
    return bool(tokens.TryConsume(closing))


def _list(tokens: Tokenizer, *, depth: int) -> Iterable[Node]:
    while not tokens.TryConsume("]"):
        yield _value(tokens, depth=depth)
        if not tokens.TryConsume(",") and tokens.token != "]":
            raise tokens.ParseError(f"expected ',' or ']', got {tokens.token!r}")


def _value(tokens: Tokenizer, *, depth: int) -> Node:
    token = tokens.token
    for opening, closing in ("{}", "<>"):
        if tokens.TryConsume(opening):
            tree = _message(tokens, closing=closing, depth=depth + 1)
            return Node(kind="message", tree=tree)
    if token[:1] in ("'", '"'):
        return Node(kind="text", text=tokens.ConsumeString())
    if token[:1].isdigit() or token[:1] in ("-", "+", "."):
        tokens.NextToken()
        if token == "-":  # a sign apart from its number
            token += tokens.ConsumeIdentifierOrNumber()
        return Node(kind="number", text=token)
    return Node(kind="word", text=tokens.ConsumeIdentifier())


def _place(tokens: Tokenizer) -> tuple[int | None, int | None]:
    here = tokens.ParseError("")
    return here.GetLine(), here.GetColumn()
