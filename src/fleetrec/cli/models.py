"""``fleetrec models``."""

import ast
import json
from pathlib import Path

import typer

from fleetrec.config.yaml_dialect.locate import ZOO, zoo_names


def list_models(*, as_json: bool) -> None:
    """Print the zoo, one line each."""
    found = [
        {
            "name": name,
            "module": f"fleetrec.models.{name.replace('/', '.')}",
            "summary": _summary(ZOO / name / "model.py"),
        }
        for name in zoo_names()
    ]
    if as_json:
        typer.echo(json.dumps(found, indent=1, ensure_ascii=False))
        return
    width = max(len(model["name"]) for model in found)
    for model in found:
        typer.echo(f"{model['name']:<{width}}  {model['summary']}")


def _summary(path: Path) -> str:
    """Return the first line about the model, without importing it (and torch)."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    model = next((node for node in classes if node.name == "Model"), None)
    text = ast.get_docstring(model) if model is not None else None
    return (text or "").partition("\n")[0]
