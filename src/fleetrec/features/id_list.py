"""The values of a column as ids, with the rules of slots."""

import dataclasses
from collections.abc import Collection, Mapping

import pyarrow as pa
from pyarrow import types

from fleetrec.config.features import IdListOptions
from fleetrec.features.column import Column
from fleetrec.features.column_cells import holds_ids, text_cell_ids, typed_ids
from fleetrec.features.feature import Feature
from fleetrec.features.id_rule import IdMap
from fleetrec.features.text import is_text
from fleetrec.features.values import IdLists


class IdListFeature(Feature, name="id_list"):
    """The ids of all values of a cell; a missing column is a column without values."""

    def __init__(self, options: IdListOptions) -> None:
        self.options = options
        self.padding = options.padding
        self.has_weights = options.weight_separator is not None
        self._map = IdMap(options.rule, where=f"feature {options.name!r}")
        self._splits_text = options.list_separator is not None or options.prefix != ""

    def columns_in(self, names: Collection[str]) -> tuple[str, ...]:
        """Return the column of the same name, if there is one."""
        return (self.options.name,) if self.options.name in names else ()

    def type_problem(self, kind: pa.DataType) -> str | None:
        """Refuse types that have no ids."""
        if self.options.prefix and not (is_text(kind) or types.is_integer(kind)):
            return f"the ids of this feature are hashes of text, got {kind}; cast the column"
        if holds_ids(kind):
            return None
        return (
            f"ids are integers, text, or lists of them, got {kind}; cast the column, or declare a "
            "dense feature"
        )

    def transform(self, columns: Mapping[str, Column]) -> IdLists:
        """Return ids, and weights if cells may have any."""
        column = columns[self.options.name]
        lists = self._split(column) if self._splits_text else typed_ids(column)
        ids = self._map(lists.ids)
        return lists if ids is lists.ids else dataclasses.replace(lists, ids=ids)

    def _split(self, column: Column) -> IdLists:
        options, kind = self.options, column.raw.type
        if types.is_dictionary(kind) and is_text(kind.value_type):
            column = Column(column.raw.dictionary_decode(), column.options)
        elif options.prefix and types.is_integer(kind):  # the text that a cell would have
            column = Column(column.raw.cast(pa.large_string()), column.options)
        elif not is_text(kind):
            return typed_ids(column)
        return text_cell_ids(
            column,
            list_separator=_byte(options.list_separator),
            weight_separator=_byte(options.weight_separator),
            prefix=_byte(options.prefix),
        )


def _byte(text: str | None) -> bytes | None:
    return text.encode() if text else None
