"""Folds the tables of an inference model into its ONNX graph: any runtime computes it alone.

The inputs of such a graph are ids instead of looked-up vectors. No torch.
"""

# Shape suffixes: N rows of a table, D width of a row.

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from fleetrec.checkpoint.folder import Folder
from fleetrec.config.rules import MAX_FOLD_MIB
from fleetrec.core.errors import ConfigError
from fleetrec.export.lookup_nodes import LENGTHS, WEIGHTS, FoldedTable, LookupNodes
from fleetrec.export.manifest import GraphEntry, GroupEntry, TableEntry
from fleetrec.export.row_files import read_rows

logger = logging.getLogger(__name__)

FOLDED = "folded.onnx"
MIB = 2**20
_ID_BYTES = 8
_FLOAT_BYTES = 4
_LOOKUP = "lookup/"  # before names of values that are added
_NETWORK = "network/"  # before names of values that are there


@dataclasses.dataclass(frozen=True, kw_only=True)
class FoldTables:
    """Adds an ONNX file that has the tables of a model in it.

    ``max_mib`` limits their size. A model that ``is_required`` to have the file is refused if its
    tables are larger; a run continues, with a warning, and saves the model without the file.
    """

    max_mib: int
    is_required: bool = True

    def fold(
        self,
        content: bytes,
        graph: GraphEntry,
        folder: Folder,
        tables: Mapping[str, TableEntry],
    ) -> dict[str, bytes]:
        """Return files to add to a model: its graph, and the folder that has its rows."""
        check_names(graph)
        try:
            check_size(tables, max_mib=self.max_mib)
        except ConfigError as error:
            if self.is_required:
                raise
            logger.warning("%s is left out: %s", FOLDED, error)
            return {}
        return {FOLDED: fold_graph(content, graph, load_tables(folder, tables))}


def check_names(graph: GraphEntry) -> None:
    """Raise ConfigError if feeds and outputs would get equal names in one graph."""
    feeds = [feed.name for feed in graph.feeds]
    ids = [feed.name for feed in graph.feeds if feed.kind == "ids"]
    taken = {*feeds, *graph.fetches}
    problems = [
        f"folded tables: {name!r} is the name of an input and of an output; rename the feature"
        for name in sorted(set(feeds) & set(graph.fetches))
    ]
    problems += [
        f"folded tables: {name + suffix!r} is an input of the graph that is made for {name!r}; "
        "rename the feature that has this name"
        for name in ids
        for suffix in (LENGTHS, WEIGHTS)
        if name + suffix in taken
    ]
    if problems:
        raise ConfigError(problems)


def check_size(tables: Mapping[str, TableEntry], *, max_mib: int) -> None:
    """Raise ConfigError, with the sizes of all tables, if they are larger than the limit."""
    sizes = {
        name: entry.num_rows * (_ID_BYTES + _FLOAT_BYTES * entry.dim)
        for name, entry in tables.items()
    }
    if sum(sizes.values()) <= max_mib * MIB:
        return
    listed = ", ".join(
        f"{name}: {tables[name].num_rows} rows, {num_bytes / MIB:.1f} MiB"
        for name, num_bytes in sorted(sizes.items(), key=lambda item: -item[1])
    )
    raise ConfigError(
        [
            f"folded tables: the tables have {sum(sizes.values()) / MIB:.1f} MiB, the limit is "
            f"{max_mib} MiB ({listed}); raise it, to at most {MAX_FOLD_MIB}, or serve the model "
            "with its tables as files"
        ]
    )


def load_tables(folder: Folder, tables: Mapping[str, TableEntry]) -> dict[str, FoldedTable]:
    """Read all rows, as they are in the files: rounded, if the model has smaller ones."""
    return {name: _load(folder, entry) for name, entry in tables.items()}


def fold_graph(content: bytes, graph: GraphEntry, tables: Mapping[str, FoldedTable]) -> bytes:
    """Return an ONNX file that has ids as inputs, and the tables as constants.

    Args:
        content: The ONNX file of the graph, whose inputs are looked-up vectors.
        graph: Its description.
        tables: The rows of its tables.
    """
    import onnx

    network = onnx.load_from_string(content)
    _rename(network.graph)
    known = {node.name: node for node in network.graph.input}
    lookups = LookupNodes(prefix=_LOOKUP)
    used = _Inputs(lookups)
    for group in graph.groups:
        _add_group(group, known, tables, lookups, used)
    dense = [known[feed.name] for feed in graph.feeds if feed.name in known]
    nodes = [*lookups.nodes, *network.graph.node]
    del network.graph.input[:], network.graph.node[:]
    network.graph.input.extend([*dense, *used.declared()])
    network.graph.node.extend(nodes)
    network.graph.initializer.extend([*lookups.constants, *used.defaults()])
    return bytes(network.SerializeToString())


class _Inputs:
    """The inputs of feeds of ids: made when they are used."""

    def __init__(self, lookups: LookupNodes) -> None:
        self._lookups = lookups
        self._present: dict[str, str] = {}
        self._weighted: dict[str, None] = {}

    def present(self, feature: str) -> str:
        """Return which ids of a feature are within its lengths."""
        if feature not in self._present:
            self._present[feature] = self._lookups.present(feature, feature + LENGTHS)
        return self._present[feature]

    def weights(self, feature: str) -> str:
        """Return the input of weights of a feature."""
        self._weighted[feature] = None
        return feature + WEIGHTS

    def declared(self) -> list[Any]:
        """Return the inputs; the number of samples and of ids is free."""
        from onnx import TensorProto
        from onnx.helper import make_tensor_value_info

        found: list[Any] = []
        for name in self._present:
            shape = ["batch", f"{name}.ids"]
            found.append(make_tensor_value_info(name, TensorProto.INT64, shape))
            found.append(make_tensor_value_info(name + LENGTHS, TensorProto.INT64, ["batch"]))
        # The default of weights has another shape than others: all sizes are free.
        weights = [name + WEIGHTS for name in self._weighted]
        free = [None, None]
        return found + [make_tensor_value_info(name, TensorProto.FLOAT, free) for name in weights]

    def defaults(self) -> list[Any]:
        """Return the weight 1 for features whose weights are not fed."""
        from onnx.numpy_helper import from_array

        one = np.ones((1, 1), np.float32)
        return [from_array(one, name + WEIGHTS) for name in self._weighted]


def _rename(graph: Any) -> None:
    """Put a prefix before inner names, so that none of them is that of a feature."""
    fixed = {node.name for node in (*graph.input, *graph.output)}
    values = [one for node in graph.node for one in node.output]
    values += [one.name for one in graph.initializer]
    names = {name: _NETWORK + name for name in values if name and name not in fixed}
    _rename_in(graph, names)


def _rename_in(graph: Any, names: Mapping[str, str]) -> None:
    """Rename values of the outer graph; bodies of loops refer to them, too."""
    for one in (*graph.initializer, *graph.value_info):
        one.name = names.get(one.name, one.name)
    for node in graph.node:
        for listed in (node.input, node.output):
            listed[:] = [names.get(name, name) for name in listed]
        for attribute in node.attribute:
            for body in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                _rename_in(body, names)


def _add_group(
    group: GroupEntry,
    known: Mapping[str, Any],
    tables: Mapping[str, FoldedTable],
    lookups: LookupNodes,
    inputs: _Inputs,
) -> None:
    """Add the lookups whose results the network uses."""
    pooled = group.features if group.input in known else ()
    sequences = [one for one in group.sequences if {one.input, one.lengths} & known.keys()]
    wanted: dict[str, dict[str, None]] = {}
    looked_up = [(one.table, one.feature) for one in pooled]
    looked_up += [(one.table, one.feature) for one in sequences]
    for name, feature in looked_up:
        wanted.setdefault(name, {})[feature] = None
    positions: dict[tuple[str, str], str] = {}
    rows: dict[str, str] = {}
    for name, features in wanted.items():
        table = tables[name]
        rows[name] = lookups.rows_constant(table)
        found = lookups.find_rows(table, list(features))
        for feature, its in zip(features, found, strict=True):
            present = inputs.present(feature)
            positions[name, feature] = lookups.only_present(its, present, table)
    vectors = [
        lookups.pool(
            rows[one.table],
            positions[one.table, one.feature],
            present=inputs.present(one.feature),
            weights=inputs.weights(one.feature),
            combiner=one.combiner,
        )
        for one in pooled
    ]
    if vectors:
        lookups.add("Concat", *vectors, output=group.input, axis=1)
    for one in sequences:
        lookups.sequence(
            rows[one.table],
            positions[one.table, one.feature],
            one.feature + LENGTHS,
            table=tables[one.table],
            max_length=one.max_length,
            output=one.input,
            lengths_output=one.lengths,
        )


def _load(folder: Folder, entry: TableEntry) -> FoldedTable:
    ids_N = np.zeros(entry.num_rows, np.int64)
    rows_ND = np.zeros((entry.num_rows, entry.dim), np.float32)
    begin = 0
    for some_ids_N, some_rows_ND in read_rows(folder, entry):
        end = begin + len(some_ids_N)
        ids_N[begin:end] = some_ids_N.view(np.int64)
        rows_ND[begin:end] = some_rows_ND
        begin = end
    order_N = np.argsort(ids_N)
    return FoldedTable(
        ids_N=ids_N[order_N], rows_ND=rows_ND[order_N], hashed_into=entry.hashed_into
    )
