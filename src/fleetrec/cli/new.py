"""``fleetrec new``."""

import re
import shutil
from pathlib import Path

import typer

from fleetrec.config.problems import hint
from fleetrec.config.yaml_dialect.locate import ZOO, zoo_names
from fleetrec.core.errors import ConfigError

NOTE = "# workspace: without this key it is the folder of this file\n"


def new_workspace(folder: Path, *, source: str) -> None:
    """Copy a built-in model; its config then uses the copy."""
    if source not in zoo_names():
        raise ConfigError([f"--from {source}: no such model{hint(source, zoo_names())}"])
    if folder.exists():
        raise ConfigError([f"{folder}: exists already; choose another name"])
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ZOO / source, folder, ignore=ignored)
    config = folder / "config.yaml"
    text = config.read_text(encoding="utf-8")
    text = re.sub(r"(?m)^workspace:.*\n", NOTE, text, count=1)
    # Checkpoints of the copy and of the original must not mix.
    text = text.replace(f'_{source.partition("/")[2]}"', f'_{folder.name}"')
    config.write_text(text, encoding="utf-8")
    typer.echo(f"made {folder}; edit {folder / 'model.py'} and {config}, then")
    typer.echo(f"  fleetrec run -m {folder}")
