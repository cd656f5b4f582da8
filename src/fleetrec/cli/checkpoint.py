"""``fleetrec checkpoint``: inspect checkpoints."""

from collections.abc import Mapping
from typing import Any

import typer

from fleetrec.checkpoint.tables import stored_tables
from fleetrec.checkpoint.tensors import read_tensors
from fleetrec.train.checkpoints import open_newest


def show_variables(path: str) -> None:
    """Print name and shape of every variable; of a table, the rows that it holds."""
    folder = open_newest(path)
    for part in folder.parts():
        names: Mapping[str, Any] = folder.meta.get("names", {}).get(part, {})
        weights = read_tensors(folder, part).get("model", {})
        shapes = {name: list(tensor.shape) for name, tensor in weights.items()}
        for name, stored in stored_tables(folder, part).items():
            shapes[name] = [stored.record.rows, stored.record.identity.dim]
        for name, shape in shapes.items():
            typer.echo(f"{names.get(name, name)}\t{shape}")
