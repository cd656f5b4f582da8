"""The items of an inference model: their ids and vectors, searched by inner product. No torch."""

# Shape suffixes: N items, B users, K vectors of a user, D width of a vector, T best items.

import dataclasses
import importlib.util
import io
import logging
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet

from fleetrec.checkpoint.folder import Folder
from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError, DataError, UnavailableError
from fleetrec.export.manifest import ItemsEntry

logger = logging.getLogger(__name__)

Floats = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]

ID, VECTOR = "id", "vector"  # columns of the file
BRUTE_FORCE_ITEMS = 1_000_000  # as many are compared one by one if faiss is not there
_SCORES_AT_ONCE = 1 << 24


class Search(Protocol):
    """Finds the items with the largest inner products."""

    def search(self, users_BD: Floats, topk: int) -> tuple[Places, Floats]:
        """Return places_BT (-1: there are no more) and scores_BT, best first."""
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class BruteForce:
    """Compares all vectors."""

    vectors_ND: Floats

    def search(self, users_BD: Floats, topk: int) -> tuple[Places, Floats]:
        """Return places_BT and scores_BT, best first; of equal scores the first item."""
        num_items = len(self.vectors_ND)
        step = max(1, _SCORES_AT_ONCE // num_items)
        places_BT = np.empty((len(users_BD), min(topk, num_items)), np.int64)
        scores_BT = np.empty(places_BT.shape, np.float32)
        for begin in range(0, len(users_BD), step):
            scores_BN = users_BD[begin : begin + step] @ self.vectors_ND.T
            for row, scores_N in enumerate(scores_BN, begin):
                places_BT[row] = _best(scores_N, places_BT.shape[1])
                scores_BT[row] = scores_N[places_BT[row]]
        return places_BT, scores_BT


@dataclasses.dataclass(frozen=True, kw_only=True)
class FaissSearch:
    """Searches an index of faiss."""

    index: Any  # of faiss, which is an extra

    def search(self, users_BD: Floats, topk: int) -> tuple[Places, Floats]:
        """Return places_BT and scores_BT, best first."""
        limit = min(topk, int(self.index.ntotal))
        scores_BT, places_BT = self.index.search(np.ascontiguousarray(users_BD), limit)
        return places_BT, scores_BT


@dataclasses.dataclass(frozen=True, kw_only=True)
class ItemIndex:
    """The items of one version of a model; threads may share one.

    Args:
        ids: Of all items: integers or text.
        dim: The width of the vectors.
        fingerprint: The version of the model that has made the vectors.
        searched: Finds items by their place in ``ids``.
    """

    ids: pa.Array
    dim: int
    fingerprint: str
    searched: Search

    def search(self, users: Floats, topk: int) -> tuple[Places, Floats]:
        """Return places_BT (-1: there are no more) and scores_BT, best first.

        A user has one vector, or several [B, K, D]: then an item counts by its best score.
        """
        if users.shape[-1] != self.dim:
            raise DataError(
                f"the vectors of users have the width {users.shape[-1]}, those of items {self.dim}"
            )
        if users.ndim == 2:
            return self.searched.search(users, topk)
        num_users = len(users)
        places, scores = self.searched.search(users.reshape(-1, self.dim), topk)
        return _merged(places.reshape(num_users, -1), scores.reshape(num_users, -1), topk)

    def ids_at(self, places_T: Places) -> list[Any]:
        """Return the ids of some places; places of -1 are left out."""
        found: list[Any] = self.ids.take(pa.array(places_T[places_T >= 0])).to_pylist()
        return found


def load_items(folder: Folder, entry: ItemsEntry, fingerprint: str) -> ItemIndex:
    """Load the items of a model."""
    where = storage.shown(folder.url_of(entry.vectors))
    has_faiss = importlib.util.find_spec("faiss") is not None
    if entry.index is not None and not has_faiss:
        _check_brute_force(folder.name, entry)
    stored = _read(folder.read_bytes(entry.vectors), where)
    if len(stored) != entry.num_items:
        raise CheckpointError(f"{where}: expected {entry.num_items} items, found {len(stored)}")
    searched: Search
    if entry.index is not None and has_faiss:
        searched = FaissSearch(index=_read_index(folder, entry))
    else:
        searched = BruteForce(vectors_ND=_vectors(stored, entry.dim, where))
    return ItemIndex(
        ids=_whole(stored[ID]), dim=entry.dim, fingerprint=fingerprint, searched=searched
    )


def load_brute_force(folder: Folder, entry: ItemsEntry) -> BruteForce:
    """Load the vectors of all items, for exact answers."""
    where = storage.shown(folder.url_of(entry.vectors))
    return BruteForce(
        vectors_ND=_vectors(_read(folder.read_bytes(entry.vectors), where), entry.dim, where)
    )


def recall_at(found_BT: Places, exact_BT: Places) -> float:
    """Return the share of the exact answers that were found."""
    hits = sum(
        len(np.intersect1d(found, exact)) for found, exact in zip(found_BT, exact_BT, strict=True)
    )
    return hits / max(1, exact_BT.size)


def _best(scores_N: Floats, topk: int) -> Places:
    if topk < len(scores_N):
        limit = np.partition(scores_N, len(scores_N) - topk)[len(scores_N) - topk]
        some = np.flatnonzero(scores_N >= limit)
    else:
        some = np.arange(len(scores_N))
    order = np.argsort(-scores_N[some], kind="stable")
    best: Places = some[order[:topk]]
    return best


def _merged(places_BC: Places, scores_BC: Floats, topk: int) -> tuple[Places, Floats]:
    """Return the best of several lists of a user, each item once."""
    limit = min(topk, places_BC.shape[1])
    places_BT = np.full((len(places_BC), limit), -1, np.int64)
    scores_BT = np.full((len(places_BC), limit), -np.inf, np.float32)
    for row, (places, scores) in enumerate(zip(places_BC, scores_BC, strict=True)):
        order = np.argsort(-scores, kind="stable")
        order = order[places[order] >= 0]
        _, first = np.unique(places[order], return_index=True)
        chosen = order[np.sort(first)][:limit]
        places_BT[row, : len(chosen)] = places[chosen]
        scores_BT[row, : len(chosen)] = scores[chosen]
    return places_BT, scores_BT


def _check_brute_force(name: str, entry: ItemsEntry) -> None:
    if entry.num_items > BRUTE_FORCE_ITEMS:
        raise UnavailableError(
            f"{name}: {entry.num_items:,} items are searched by an index, which needs faiss: "
            "pip install 'fleetrec[ann]'"
        )
    if entry.index_type != "exact":
        logger.warning(
            "%s: faiss is not installed, so all %s items are compared for every user; for the "
            "index: pip install 'fleetrec[ann]'",
            name,
            f"{entry.num_items:,}",
        )


def _read(content: bytes, where: str) -> pa.Table:
    try:
        return pa.parquet.read_table(io.BytesIO(content), columns=[ID, VECTOR])
    except (pa.ArrowException, OSError, KeyError) as error:
        raise CheckpointError(f"{where}: damaged: {error}") from error


def _vectors(stored: pa.Table, dim: int, where: str) -> Floats:
    flat = _whole(stored[VECTOR]).flatten().to_numpy(zero_copy_only=False)
    if flat.size != len(stored) * dim:
        raise CheckpointError(f"{where}: damaged: expected vectors of the width {dim}")
    vectors_ND: Floats = np.ascontiguousarray(flat, np.float32).reshape(-1, dim)
    return vectors_ND


def _whole(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def _read_index(folder: Folder, entry: ItemsEntry) -> Any:
    import faiss

    assert entry.index is not None
    where = storage.shown(folder.url_of(entry.index))
    content = folder.read_bytes(entry.index)
    try:
        index = faiss.deserialize_index(np.frombuffer(content, np.uint8))
    except RuntimeError as error:  # of faiss
        reason = str(error).strip().partition("\n")[0]
        raise CheckpointError(
            f"{where}: faiss {faiss.__version__} cannot load it: {reason}"
        ) from error
    if (index.ntotal, index.d) != (entry.num_items, entry.dim):
        raise CheckpointError(
            f"{where}: damaged: expected {entry.num_items} vectors of the width {entry.dim}, found "
            f"{index.ntotal} of {index.d}"
        )
    return index
