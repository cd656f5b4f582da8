"""Files of items and edges in EasyRec's text format, for sampled negatives."""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from fleetrec._native import hash_text
from fleetrec.config.features import FeatureOptions, FeatureSetOptions
from fleetrec.config.job import DatasetOptions
from fleetrec.config.samplers import SamplerOptions
from fleetrec.core.batch import Side
from fleetrec.core.errors import DataError
from fleetrec.data.columns import to_side
from fleetrec.data.files import list_files, storage_errors
from fleetrec.features.feature_set import FeatureSet
from fleetrec.features.text import text_buffers
from fleetrec.features.values import Ids

Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Catalogue:
    """All items: the hash of the id, weight and features of each, ordered by hash."""

    hashes: Ids
    weights: Floats
    items: Side

    def places(self, hashes: Ids) -> tuple[Ids, npt.NDArray[np.bool_]]:
        """Return the index of items, and which of them are known."""
        at = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        return at, self.hashes[at] == hashes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Edges:
    """Items of users: those of user ``k`` are ``items[offsets[k]:offsets[k + 1]]``, sorted."""

    users: Ids  # hashes, sorted
    offsets: Ids
    items: Ids  # indexes in the catalogue

    def of(self, user: int) -> Ids:
        """Return the items of the user with a hash."""
        at = int(np.searchsorted(self.users, user))
        if at == len(self.users) or self.users[at] != user:
            return self.items[:0]
        return self.items[self.offsets[at] : self.offsets[at + 1]]


def read_catalogue(options: SamplerOptions, dataset: DatasetOptions) -> Catalogue:
    """Return the items of a file, with the features that are made of its attributes."""
    table = _read(options.item_path, ("id", "weight", "feature"), options.field_separator)
    texts = table["feature"]
    split = pc.split_pattern(texts, options.attribute_separator)
    counts = pc.list_value_length(split).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(counts != len(options.attributes))
    if len(wrong):
        raise DataError(
            f"{options.item_path}: item {table['id'][int(wrong[0])].as_py()}: expected "
            f"{len(options.attributes)} attributes separated by "
            f"{options.attribute_separator!r}, got {counts[wrong[0]]}"
        )
    columns = {name: pc.list_element(split, i) for i, name in enumerate(options.attributes)}
    hashes = hashes_of(table["id"])
    unique, kept = np.unique(hashes, return_index=True)
    if not len(kept):
        raise DataError(f"{options.item_path}: has no items")
    chosen = pa.array(kept)
    rows = pa.RecordBatch.from_pydict({n: array.take(chosen) for n, array in columns.items()})
    values = FeatureSet(item_features(options, dataset)).transform(rows)
    return Catalogue(
        hashes=unique,
        weights=_numbers(table["weight"], options.item_path)[kept],
        items=to_side([values], sparse=tuple(values.ids), dense=tuple(values.dense)),
    )


def item_features(options: SamplerOptions, dataset: DatasetOptions) -> FeatureSetOptions:
    """Return the features of a data set that are made of the attributes of items alone."""
    known = set(options.attributes)
    features = tuple(
        one
        for one in dataset.features
        if isinstance(one, FeatureOptions)
        and set(one.columns) <= known
        and one.name in (*dataset.sparse, *(slot.name for slot in dataset.dense))
        and ":" not in one.name
    )
    columns = tuple(column for column in dataset.columns if column.name in known)
    return FeatureSetOptions(owner=options.item_path, columns=columns, features=features)


def read_edges(path: str, catalogue: Catalogue, *, separator: str) -> Edges:
    """Return the edges between users and items of the catalogue."""
    table = _read(path, ("userid", "itemid", "weight"), separator)
    users = hashes_of(table["userid"])
    items, is_known = catalogue.places(hashes_of(table["itemid"]))
    users, items = users[is_known], items[is_known]
    order = np.lexsort((items, users))
    unique, begins = np.unique(users[order], return_index=True)
    offsets = np.append(begins, len(order)).astype(np.int64)
    return Edges(users=unique, offsets=offsets, items=items[order])


def hashes_of(texts: pa.Array) -> Ids:
    """Return the hash of every text, as features have it."""
    return hash_text(*text_buffers(texts.cast(pa.large_binary())))


def _read(path: str, names: Sequence[str], separator: str) -> dict[str, pa.Array]:
    """Return columns of text; a first line ``id:int64 weight:float ...`` names them."""
    tables = []
    for file in itertools.chain.from_iterable(
        list_files(part.strip()) for part in path.split(",") if part.strip()
    ):
        with storage_errors(file.path, doing="read"), file.open() as stream:
            content = stream.read()
        if not content:
            continue
        first = content.split(b"\n", 1)[0].rstrip(b"\r").decode(errors="replace")
        mark = "\t" if "\t" in first else separator if separator in first else ","
        cells = [cell.partition(":") for cell in first.split(mark)]
        has_header = (
            all(colon for _, colon, _ in cells)
            and cells[0][2] != ""
            and not (cells[0][0].lstrip("-").isdigit())
        )
        found = [name for name, _, _ in cells] if has_header else list(names[: len(cells)])
        tables.append(_parse(content, file.path, mark, found, skip=int(has_header)))
    if not tables:
        raise DataError(f"{path}: no such file, or it is empty")
    columns: dict[str, pa.Array] = {}
    for name in names:
        parts = [_column(table, name, names, path) for table in tables]
        columns[name] = pa.concat_arrays(parts)
    return columns


def _parse(content: bytes, path: str, mark: str, names: Sequence[str], *, skip: int) -> pa.Table:
    try:
        return pa.csv.read_csv(
            pa.BufferReader(content),
            read_options=pa.csv.ReadOptions(column_names=names, skip_rows=skip),
            parse_options=pa.csv.ParseOptions(delimiter=mark, quote_char=False),
            convert_options=pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )
    except pa.ArrowInvalid as error:
        raise DataError(f"{path}: {error}") from error


def _column(table: pa.Table, name: str, names: Sequence[str], path: str) -> pa.Array:
    if name in table.column_names:
        chosen: Any = table[name]
    elif len(table.column_names) > names.index(name):
        chosen = table.column(names.index(name))
    elif name == "weight":
        return pa.array(["1"] * table.num_rows, pa.string())
    else:
        raise DataError(f"{path}: has no column {name!r}; it has {', '.join(table.column_names)}")
    whole = chosen.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def _numbers(texts: pa.Array, path: str) -> Floats:
    try:
        found = np.asarray(texts.cast(pa.float64()).to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid as error:
        raise DataError(f"{path}: weights: {error}") from error
    if not np.isfinite(found).all() or (found < 0).any():
        raise DataError(f"{path}: weights must be finite numbers of at least 0")
    return found
