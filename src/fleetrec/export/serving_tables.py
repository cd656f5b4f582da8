"""The tables of an inference model in memory, looked up by the lookups of training. No torch."""

# Shape suffixes: N ids, D width of a row.

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetrec._native import Table
from fleetrec.checkpoint.folder import Folder
from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError
from fleetrec.core.sides import SAMPLE
from fleetrec.embedding.layout import EmbeddedFeature, EmbeddingLayout
from fleetrec.embedding.table import TableConfig
from fleetrec.embedding.table_lookup import TableLookup
from fleetrec.export.manifest import MODEL, GroupEntry, ModelManifest, TableEntry
from fleetrec.export.row_files import IdArray, read_removed, read_rows
from fleetrec.features.values import KeyedIds

Array = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableChanges:
    """Changes of one table, read and checked: blocks of ids_N and rows_ND, and removed ids_N."""

    rows: list[tuple[npt.NDArray[np.int64], Array]]
    removed: npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PreparedTables:
    """What a model does to the tables that are loaded: new ones, and changes of the others."""

    new: Mapping[str, Table]
    changes: Mapping[str, TableChanges]


class ServingTables:
    """Tables and how they are looked up. One thread at a time calls ``look_up`` or ``apply``.

    Args:
        groups: How the whole model looks up.
        entries: The tables of the model.
        towers: How its towers look up, by name.
    """

    def __init__(
        self,
        groups: tuple[GroupEntry, ...],
        entries: Mapping[str, TableEntry],
        *,
        towers: Mapping[str, tuple[GroupEntry, ...]] = MappingProxyType({}),
    ) -> None:
        self._groups = {MODEL: groups, **towers}
        self._layouts = {name: _layout(some, entries) for name, some in self._groups.items()}
        self._tables: dict[str, Table] = {}
        self._lookups: dict[str, TableLookup] = {}

    def __len__(self) -> int:
        return sum(map(len, self._tables.values()))

    def prepare(self, folder: Folder, manifest: ModelManifest) -> PreparedTables:
        """Read and check the rows of a model; nothing changes. Another thread may call it."""
        new: dict[str, Table] = {}
        changes: dict[str, TableChanges] = {}
        for name, entry in manifest.tables.items():
            where = storage.shown(folder.url_of(f"tables/{name}"))
            try:
                if entry.content == "all":
                    new[name] = _filled(folder, name, entry)
                else:
                    changes[name] = _checked(self._tables[name], folder, entry)
            except ValueError as error:
                raise CheckpointError(f"{where}: damaged: {error}") from error
        return PreparedTables(new=new, changes=changes)

    def apply(self, prepared: PreparedTables) -> None:
        """Apply what was prepared."""
        for name, changes in prepared.changes.items():
            self._tables[name].remove(changes.removed)
            for ids_N, rows_ND in changes.rows:
                self._tables[name].write(ids_N, rows_ND)
        if prepared.new:
            self._tables = {**self._tables, **prepared.new}
            self._lookups = {
                name: TableLookup(layout, self._tables, frozen=self._tables)
                for name, layout in self._layouts.items()
            }

    def look_up(self, ids: KeyedIds, *, graph: str = MODEL) -> dict[str, Array]:
        """Return the looked-up inputs of a graph."""
        groups, layout = self._groups[graph], self._layouts[graph]
        if not groups:
            return {}
        found = self._lookups[graph].look_up({SAMPLE: ids})
        inputs: dict[str, Array] = {}
        for group, (key, looked_up) in zip(groups, layout.groups.items(), strict=True):
            if group.features:
                inputs[group.input] = found[key]
            for sequence, feature in zip(group.sequences, looked_up.sequences, strict=True):
                inputs[sequence.input] = found[feature.sequence_input]
                inputs[sequence.lengths] = found[feature.lengths_input]
        return inputs


def _layout(groups: tuple[GroupEntry, ...], entries: Mapping[str, TableEntry]) -> EmbeddingLayout:
    """Return a layout with the same groups in the same order.

    A table is in one group only. Names within the layout are numbers: they are not those of inputs.
    """
    group_of: dict[str, int] = {}
    features: list[EmbeddedFeature] = []
    for number, group in enumerate(groups):
        for place, one in enumerate(group.features):
            name = f"{number}.{place}"
            features.append(
                EmbeddedFeature(
                    feature=one.feature, table=one.table, combiner=one.combiner, name=name
                )
            )
            group_of[one.table] = number
        for place, sequence in enumerate(group.sequences):
            features.append(
                EmbeddedFeature(
                    feature=sequence.feature,
                    table=sequence.table,
                    combiner="none",
                    max_length=sequence.max_length,
                    name=f"{number}.{place}",
                )
            )
            group_of[sequence.table] = number
    tables = [
        TableConfig(
            name=name,
            dim=entry.dim,
            num_rows=entry.hashed_into,
            out_of_range="error" if entry.hashed_into is None else "hash",
            optimizer_group=group_of.get(name, len(groups)),
        )
        for name, entry in entries.items()
    ]
    layout = EmbeddingLayout(features=features, tables=tables)
    if [group.dim for group in layout.groups.values()] != [group.dim for group in groups]:
        raise ValueError("groups and tables do not match")
    return layout


def _new_table(name: str, entry: TableEntry) -> Table:
    return Table(
        name=name,
        dim=entry.dim,
        num_rows=entry.hashed_into,
        hash_ids=entry.hashed_into is not None,
        salt=0,
        initial=("constant", 0.0, 0.0),
        optimizer="sgd",  # it has no state
        hyperparameters={},
        guards={},
        admission=("always", 1.0, 0.0, 0.0),
    )


def _filled(folder: Folder, name: str, entry: TableEntry) -> Table:
    table = _new_table(name, entry)
    for ids_N, rows_ND in read_rows(folder, entry):
        table.add_rows(ids=_signed(ids_N), rows=rows_ND)
    return table


def _checked(table: Table, folder: Folder, entry: TableEntry) -> TableChanges:
    rows = [(_signed(ids_N), rows_ND) for ids_N, rows_ND in read_rows(folder, entry)]
    for ids_N, _ in rows:
        table.check_held(ids_N)
    return TableChanges(rows=rows, removed=_signed(read_removed(folder, entry)))


def _signed(ids_N: IdArray) -> npt.NDArray[np.int64]:
    """Return the same 64 bits as the native table takes them."""
    return np.ascontiguousarray(ids_N).view(np.int64)
