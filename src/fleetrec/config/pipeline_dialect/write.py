"""Write a pipeline as text, so that a run can save its configuration."""

from collections.abc import Iterator

from google.protobuf.text_encoding import CEscape

from fleetrec.config.pipeline_dialect.message import Message, Opaque
from fleetrec.config.pipeline_dialect.plain import shapes
from fleetrec.config.pipeline_dialect.text import Node, Tree


def to_text(tree: Tree, schema: type[Message]) -> str:
    """Write a tree that fits the schema."""
    return "".join(f"{line}\n" for line in _lines(tree, schema, indent=""))


def _lines(tree: Tree, schema: type[Message], *, indent: str) -> Iterator[str]:
    known = {} if schema is Opaque else shapes(schema)
    for name, nodes in tree.items():
        shape = known.get(name)
        for node in nodes:
            if node.kind == "message":
                inner = (shape and shape.message) or Opaque
                yield f"{indent}{name} {{"
                yield from _lines(node.tree, inner, indent=f"{indent}  ")
                yield f"{indent}}}"
            else:
                is_text = shape is not None and shape.type is str
                yield f"{indent}{name}: {_scalar(node, is_text=is_text)}"


def _scalar(node: Node, *, is_text: bool) -> str:
    if node.kind == "text" or (node.kind == "given" and is_text):
        return f'"{CEscape(node.text.encode(), as_utf8=True)}"'
    return node.text
