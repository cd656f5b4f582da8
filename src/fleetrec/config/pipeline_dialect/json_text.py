"""Pipelines in JSON: the same messages, with names in snake or camel case."""

import json
import re
from pathlib import Path
from typing import Any

from fleetrec.config.pipeline_dialect.fg import to_tree
from fleetrec.config.pipeline_dialect.text import Tree
from fleetrec.core.errors import ConfigError


def read_json_tree(path: Path) -> Tree:
    """Read a pipeline file in JSON."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError([f"{path}: no such file"]) from None
    except (OSError, ValueError) as error:
        raise ConfigError([f"{path}: cannot be read as JSON: {error}"]) from error
    if not isinstance(document, dict):
        raise ConfigError([f"{path}: expected an object"])
    return to_tree(_snake(document), origin=str(path))


def _snake(value: Any) -> Any:
    """Return the same data with names in snake case."""
    if isinstance(value, list):
        return [_snake(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower(): _snake(inner)
        for name, inner in value.items()
    }
