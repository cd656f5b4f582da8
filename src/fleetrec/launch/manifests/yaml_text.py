"""Write objects as YAML that readers of YAML 1.1 and 1.2 understand alike."""

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9./_-]*")
WORDS = frozenset(
    {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
)  # not text in YAML 1.1
BLOCK = re.compile(r"[!-~](?:[ -~]*[!-~])?\n(?:(?:[ -~]*[!-~])?\n)*")  # nothing a block would lose


def to_yaml(objects: Sequence[Mapping[str, Any]]) -> str:
    """Return documents, one per object."""
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.width = 1 << 20
    yaml.indent(mapping=2, sequence=4, offset=2)
    text = io.StringIO()
    yaml.dump_all([_quoted(item) for item in objects], text)
    return text.getvalue()


def _quoted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_quoted(name): _quoted(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_quoted(item) for item in value]
    if not isinstance(value, str):
        return value
    if BLOCK.fullmatch(value):
        return LiteralScalarString(value)
    if PLAIN.fullmatch(value) and value.lower() not in WORDS:
        return value
    return DoubleQuotedScalarString(value)
