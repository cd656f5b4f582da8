"""``fleetrec models show``."""

import inspect
import textwrap
from pathlib import Path
from typing import Any

import torch
import typer
from pydantic.fields import FieldInfo
from pydantic_core import to_json

from fleetrec.cli.job import load_job
from fleetrec.config.job import PhaseOptions, RunOptions
from fleetrec.config.options import Options
from fleetrec.config.problems import hint
from fleetrec.config.yaml_dialect.locate import zoo_names
from fleetrec.core.errors import ConfigError
from fleetrec.export.traced_graph import sample_batch
from fleetrec.models.base import Model
from fleetrec.parallel.solo import SoloGroup
from fleetrec.train.phase import Phase, build_phase


def show_model(name: str) -> None:
    """Print what a built-in model is, as its own config builds it."""
    if name not in zoo_names():
        raise ConfigError([f"{name}: no such model{hint(name, zoo_names())}"])
    run, options = _last_training(name)
    phase = build_phase(options, run, SoloGroup(torch.device("cpu")))
    typer.echo(f"{name}\n\n{inspect.cleandoc(phase.model.__doc__ or '')}\n")
    _section("inputs", _inputs(phase))
    _section("outputs", _outputs(phase))
    _section("tables", _tables(phase.model))
    _section("hyper-parameters (default; value in config.yaml)", _hyper_parameters(options.model))
    count = sum(parameter.numel() for parameter in phase.model.parameters())
    typer.echo(f"dense parameters: {count:,}")
    typer.echo(f"files: {Path(options.model_path).parent}")


def _last_training(name: str) -> tuple[RunOptions, PhaseOptions]:
    """Return where the model itself is trained; what comes before prepares it."""
    runs = [run for run in load_job(name).runs if run.kind == "train"]
    return runs[-1], runs[-1].phases[-1]


def _inputs(phase: Phase) -> list[tuple[str, str]]:
    labels = {task.label for task in phase.model.tasks if task.label}
    inputs = phase.loader.inputs
    ids = [slot for slot in inputs.sparse if slot not in labels]
    rows = [("label", ", ".join(sorted(labels)))]
    if ids:
        rows.append(("ids", ", ".join(ids)))
    dense = [f"{slot} {list(shape)}" for slot, shape in inputs.dense.items()]
    return [*rows, ("dense", ", ".join(dense))] if dense else rows


def _outputs(phase: Phase) -> list[tuple[str, str]]:
    batch = sample_batch(phase.model, phase.loader.inputs)
    outputs = phase.model.eval()(batch)
    return [(name, f"{['samples', *value.shape[1:]]}") for name, value in outputs.items()]


def _tables(model: Model) -> list[tuple[str, str]]:
    tables = model.embedding_collection().tables.values()
    return [(table.name, f"{table.dim} wide, {_size(table.num_rows)}") for table in tables]


def _size(num_rows: int | None) -> str:
    return "grows" if num_rows is None else f"ids below {num_rows:,}"


def _hyper_parameters(configured: Options) -> list[tuple[str, str]]:
    fields = type(configured).model_fields
    return [(name, _about(field, getattr(configured, name))) for name, field in fields.items()]


def _about(field: FieldInfo, value: Any) -> str:
    given = "" if value == field.default else f"; {_plain(value)}"
    return f"{field.description} ({_plain(field.default)}{given})"


def _plain(value: Any) -> str:
    if isinstance(value, Options):  # only what differs from its own defaults
        value = value.model_dump(exclude_defaults=True)
    return "none" if value is None else to_json(value).decode().replace(",", ", ")


def _section(title: str, rows: list[tuple[str, str]]) -> None:
    if not rows:
        return
    typer.echo(f"{title}:")
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        lines = textwrap.wrap(text, 96 - width)
        typer.echo(f"  {name:<{width}}  " + f"\n{'':{width + 4}}".join(lines))
    typer.echo("")
