"""Computes the vectors of items by a model, and writes them with an index. No torch."""

# Shape suffixes: N items, B items of a batch, D width of a vector.

import dataclasses
import hashlib
import importlib.util
import logging
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from fleetrec.checkpoint.staging import Staging
from fleetrec.core.errors import ConfigError, DataError, ModelError, UnavailableError
from fleetrec.core.tower_names import ITEM
from fleetrec.export.item_index import ID, VECTOR, Floats
from fleetrec.export.manifest import IndexType, ItemsEntry
from fleetrec.export.opened import OpenModel
from fleetrec.export.predictor import Predictor, TowerPredictor
from fleetrec.features.values import FeatureValues

logger = logging.getLogger(__name__)

INDEX_TYPES: tuple[str, ...] = ("auto", *get_args(IndexType))
FOLDER, VECTORS, INDEX = "items", "vectors.parquet", "index.faiss"

MAX_EXACT = 200_000  # items; the index of more is approximate, if none was chosen
_HNSW_LINKS = 32
_HNSW_BUILD = 100  # candidates while a graph is built
_HNSW_SEARCH = 256  # candidates of a search
_LISTS_PER_ROOT = 4  # lists of IVF per square root of the number of items
_PROBED_SHARE = 4  # one list of this number is searched
_TRAINING_ITEMS = 64  # per list

ItemRows = Iterator[tuple[FeatureValues, pa.Array]]  # features and ids
RowsOf = Callable[[TowerPredictor, Predictor], ItemRows]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ItemWriter:
    """Adds the items to a model that is not published yet.

    Args:
        rows_of: Reads the items as the features of a tower.
        id_column: Where their ids are from, for the manifest.
        index: One of ``INDEX_TYPES``. auto: chosen by the number of items.
    """

    rows_of: RowsOf
    id_column: str
    index: str = "auto"

    def check(self) -> None:
        """Raise ConfigError or UnavailableError before anything is computed."""
        if self.index not in INDEX_TYPES:
            raise ConfigError([f"--index: expected {', '.join(INDEX_TYPES)}, got {self.index!r}"])
        if self.index not in ("auto", "none"):
            _check_faiss(f"--index {self.index}")

    def add(
        self, staging: Staging, opened: OpenModel
    ) -> tuple[ItemsEntry, dict[str, dict[str, Any]]]:
        """Write vectors and index; returns how the manifest describes them, and their files."""
        predictor = Predictor(opened)
        tower = predictor.tower(ITEM)
        ids, vectors_ND = _collect(tower, self.rows_of(tower, predictor))
        kind = choose_index(len(ids), self.index)
        with staging.folder(FOLDER) as folder:
            names = [VECTORS]
            table = pa.table({ID: ids, VECTOR: _lists(vectors_ND)})
            pa.parquet.write_table(table, folder / VECTORS)
            if kind != "none":
                _write_index(build_index(vectors_ND, kind), folder / INDEX)
                names.append(INDEX)
            files = {f"{FOLDER}/{name}": _described(folder / name) for name in names}
        num_items, dim = vectors_ND.shape
        logger.info("%s items with vectors of width %d, index: %s", f"{num_items:,}", dim, kind)
        entry = ItemsEntry(
            num_items=num_items,
            dim=dim,
            id_column=self.id_column,
            vectors=f"{FOLDER}/{VECTORS}",
            index=None if kind == "none" else f"{FOLDER}/{INDEX}",
            index_type=kind,
        )
        return entry, files


def choose_index(num_items: int, given: str) -> IndexType:
    """Return the index for a number of items; ``auto`` leaves the choice to this function."""
    if given != "auto":
        kind: IndexType = given  # type: ignore[assignment]
        return kind
    if num_items > MAX_EXACT:
        _check_faiss(f"an index of {num_items:,} items")
        return "ivf"  # hnsw takes minutes to build
    if importlib.util.find_spec("faiss") is None:
        logger.info("no index is written, which needs faiss: pip install 'fleetrec[ann]'")
        return "none"
    return "exact"


def build_index(vectors_ND: Floats, kind: IndexType) -> Any:
    """Return an index of faiss that finds large inner products."""
    import faiss

    index: Any
    num_items, dim = vectors_ND.shape
    metric = faiss.METRIC_INNER_PRODUCT
    match kind:
        case "hnsw":
            index = faiss.IndexHNSWFlat(dim, _HNSW_LINKS, metric)
            index.hnsw.efConstruction = _HNSW_BUILD
            index.hnsw.efSearch = _HNSW_SEARCH
        case "ivf":
            num_lists = max(1, min(int(_LISTS_PER_ROOT * math.sqrt(num_items)), num_items // 39))
            index = faiss.IndexIVFFlat(faiss.IndexFlatIP(dim), dim, num_lists, metric)
            index.nprobe = max(1, math.ceil(num_lists / _PROBED_SHARE))
            some = np.random.default_rng(0).permutation(num_items)[: num_lists * _TRAINING_ITEMS]
            index.train(vectors_ND[np.sort(some)])
        case _:
            index = faiss.IndexFlatIP(dim)
    index.add(vectors_ND)
    return index


def _check_faiss(what: str) -> None:
    if importlib.util.find_spec("faiss") is None:
        raise UnavailableError(
            f"{what} needs faiss: pip install 'fleetrec[ann]'; or use --index none, which compares "
            "all items for every user"
        )


def _collect(tower: TowerPredictor, rows: ItemRows) -> tuple[pa.Array, Floats]:
    """Return ids and vectors of all items; of several rows with one id, the first counts."""
    (output,) = tower.fetches
    seen: set[Any] = set()
    ids: list[pa.Array] = []
    vectors: list[Floats] = []
    num_rows = 0
    for values, found in rows:
        batch_ids = _checked_ids(found, num_rows)
        num_rows += len(batch_ids)
        vectors_BD = tower.predict_values(values, [output])[output]
        if vectors_BD.ndim != 2 or not np.isfinite(vectors_BD).all():
            raise ModelError(f"the tower {tower.name!r}: expected one finite vector per item")
        is_new = np.zeros(len(batch_ids), np.bool_)
        for place, one in enumerate(batch_ids.to_pylist()):
            if one not in seen:
                seen.add(one)
                is_new[place] = True
        ids.append(batch_ids.filter(pa.array(is_new)))
        vectors.append(vectors_BD[is_new].astype(np.float32, copy=False))
    if not seen:
        raise DataError("--items: expected at least one item, found none")
    if num_rows > len(seen):
        logger.info(
            "%s rows have an id that came before; the first row of an id counts",
            f"{num_rows - len(seen):,}",
        )
    return pa.concat_arrays(ids), np.concatenate(vectors)


def _checked_ids(found: pa.Array, num_before: int) -> pa.Array:
    """Return ids as 64-bit integers or text."""
    if pa.types.is_dictionary(found.type):
        found = found.dictionary_decode()
    kind = found.type
    if pa.types.is_integer(kind):
        wanted = pa.uint64() if pa.types.is_uint64(kind) else pa.int64()
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        wanted = pa.string()
    else:
        raise DataError(f"--item-id: expected integers or text, got {kind}")
    if found.null_count:
        row = num_before + found.is_null().index(pa.scalar(value=True)).as_py() + 1
        raise DataError(f"--item-id: row {row} of the items has no id")
    return found.cast(wanted)


def _lists(vectors_ND: Floats) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors_ND.reshape(-1)), vectors_ND.shape[1])


def _write_index(index: Any, path: Path) -> None:
    import faiss

    faiss.write_index(index, str(path))


def _described(path: Path) -> dict[str, Any]:
    """Return the entry of a file in the manifest."""
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}
