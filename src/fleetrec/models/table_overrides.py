"""Tables of a model with the options that a job has for them."""

import dataclasses
from collections.abc import Collection, Mapping

from fleetrec.config.problems import meant
from fleetrec.config.tables import DEFAULT, TableOverrides
from fleetrec.embedding.table import Initializer, LongVector, TableConfig
from fleetrec.models.base import Model
from fleetrec.models.table_options import build_admission, build_eviction, build_table_optimizer


def override_tables(model: Model, overrides: Mapping[str, TableOverrides]) -> None:
    """Change the tables of a model; call it before their rows are stored.

    Names that are no table of the model are left to ``check_table_names``.

    Raises:
        ValueError: The options do not fit a table.
    """
    collection = model.embedding_collection()
    if not overrides or not collection.tables:
        return
    changed = [
        _changed(table, overrides.get(name, overrides.get(DEFAULT)))
        for name, table in collection.tables.items()
    ]
    collection.replace_tables(_regrouped(changed))


def check_table_names(overrides: Collection[str], tables: Collection[str]) -> None:
    """Raise ValueError if options are for tables that do not exist."""
    for name in overrides:
        if name != DEFAULT and name not in tables:
            listed = f"its tables: {', '.join(tables)}" if tables else "it has none"
            raise ValueError(
                f"table_parameters.{name}: the model has no such table ({listed})"
                f"{meant(name, tables)}"
            )


def _changed(table: TableConfig, options: TableOverrides | None) -> TableConfig:
    if options is None:
        return table
    if options.width is not None and options.width != table.dim:
        raise ValueError(
            f"table_parameters: embedx_dim: {options.width - 1} means rows of {options.width} "
            f"weights, but those of table {table.name} have {table.dim}; set it to {table.dim - 1}"
        )
    changes: dict[str, object] = {}
    if options.admission is not None:
        changes["admission"] = build_admission(options.admission)
    if options.eviction is not None:
        changes["eviction"] = build_eviction(options.eviction)
    if options.optimizer is not None:
        changes["own_optimizer"] = build_table_optimizer(options.optimizer)
    if options.initial_range is not None:
        changes["initializer"] = Initializer(kind="uniform", scale=options.initial_range)
    if options.long_vector is not None and table.dim > 1:
        changes["long_vector"] = LongVector(**options.long_vector.model_dump())
    if options.click_label is not None:
        changes["click_label"] = options.click_label
    return dataclasses.replace(table, **changes)  # type: ignore[arg-type]


def _regrouped(tables: list[TableConfig]) -> list[TableConfig]:
    """Separate tables with different learning rates: a group of lookups has one."""
    groups: dict[tuple[int, float | None, float], int] = {}
    used = {table.optimizer_group for table in tables}
    grouped = []
    for table in tables:
        rate = None if table.own_optimizer is None else table.own_optimizer.lr
        key = (table.optimizer_group, rate, table.lr_scale)
        if key not in groups:
            is_first = all(group != table.optimizer_group for group, *_ in groups)
            groups[key] = table.optimizer_group if is_first else max({*used, *groups.values()}) + 1
        grouped.append(dataclasses.replace(table, optimizer_group=groups[key]))
    return grouped
