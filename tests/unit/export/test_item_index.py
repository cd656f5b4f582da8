"""Search of items: by brute force, by indexes of faiss, and without faiss."""

import io
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fleetrec.checkpoint.folder import Folder, describe
from fleetrec.core.errors import CheckpointError, DataError, UnavailableError
from fleetrec.export import item_index
from fleetrec.export.item_files import build_index
from fleetrec.export.item_index import BruteForce, FaissSearch, ItemIndex, load_items, recall_at
from fleetrec.export.manifest import ItemsEntry

VECTORS = np.array([[1, 0], [0, 1], [1, 1], [-1, 0]], np.float32)
IDS = pa.array(["a", "b", "c", "d"])


def generated(number, *, dim=8, seed=0):
    return np.random.default_rng(seed).standard_normal((number, dim)).astype(np.float32)


def items_of(searched, *, ids=IDS, dim=2):
    return ItemIndex(ids=ids, dim=dim, fingerprint="f", searched=searched)


def folder_of(tmp_path, entry, contents):
    (tmp_path / "items").mkdir()
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    files = {name: describe(content) for name, content in contents.items()}
    return Folder(url=str(tmp_path), meta={}, files=files)


def stored(tmp_path, *, kind="exact", num_items=4, with_index=True):
    """Write the items of a model; returns its folder and their entry."""
    stream = io.BytesIO()
    lists = pa.FixedSizeListArray.from_arrays(pa.array(VECTORS.reshape(-1)), 2)
    pq.write_table(pa.table({"id": IDS, "vector": lists}), stream)
    contents = {"items/vectors.parquet": stream.getvalue()}
    if with_index:
        faiss = pytest.importorskip("faiss")
        content = faiss.serialize_index(build_index(VECTORS, kind)).tobytes()
        contents["items/index.faiss"] = content
    entry = ItemsEntry(
        num_items=num_items,
        dim=2,
        id_column="item",
        vectors="items/vectors.parquet",
        index="items/index.faiss" if with_index else None,
        index_type=kind if with_index else "none",
    )
    return folder_of(tmp_path, entry, contents), entry


def test_brute_force_returns_the_best_and_of_equal_ones_the_first():
    users = np.array([[1, 0], [0, 2]], np.float32)
    places, scores = BruteForce(vectors_ND=VECTORS).search(users, 3)
    assert places.tolist() == [[0, 2, 1], [1, 2, 0]]
    assert scores.tolist() == [[1, 1, 0], [2, 2, 0]]


def test_no_more_items_are_found_than_there_are():
    items = items_of(BruteForce(vectors_ND=VECTORS))
    places, _ = items.search(np.array([[1, 0]], np.float32), 100)
    assert items.ids_at(places[0]) == ["a", "c", "b", "d"]


def test_many_users_are_searched_in_parts(monkeypatch):
    vectors, users = generated(50), generated(20, seed=1)
    whole = BruteForce(vectors_ND=vectors).search(users, 5)
    monkeypatch.setattr(item_index, "_SCORES_AT_ONCE", 120)
    np.testing.assert_array_equal(BruteForce(vectors_ND=vectors).search(users, 5)[0], whole[0])


def test_an_item_counts_by_its_best_score_if_a_user_has_several_vectors():
    items = items_of(BruteForce(vectors_ND=VECTORS))
    users = np.array([[[1, 0], [0, 3]]], np.float32)
    places, scores = items.search(users, 3)
    assert items.ids_at(places[0]) == ["b", "c", "a"]
    assert scores.tolist() == [[3, 3, 1]]


def test_vectors_of_another_width_are_refused():
    with pytest.raises(DataError, match="users have the width 3, those of items 2"):
        items_of(BruteForce(vectors_ND=VECTORS)).search(np.zeros((1, 3), np.float32), 1)


@pytest.mark.parametrize(("kind", "least"), [("exact", 1.0), ("hnsw", 0.9), ("ivf", 0.5)])
def test_an_index_finds_what_brute_force_finds(kind, least):
    pytest.importorskip("faiss")
    vectors, users = generated(2000), generated(50, seed=1)
    exact, exact_scores = BruteForce(vectors_ND=vectors).search(users, 20)
    found, scores = FaissSearch(index=build_index(vectors, kind)).search(users, 20)
    assert recall_at(found, exact) >= least
    assert (np.diff(scores, axis=1) <= 0).all()
    if kind == "exact":
        np.testing.assert_allclose(scores, exact_scores, atol=1e-5)


def test_recall_is_the_share_of_exact_answers_that_were_found():
    exact = np.array([[1, 2], [3, 4]])
    assert recall_at(np.array([[2, 1], [3, -1]]), exact) == 0.75


def test_stored_items_are_found_again(tmp_path):
    folder, entry = stored(tmp_path)
    items = load_items(folder, entry, "f")
    places, _ = items.search(np.array([[0, 1]], np.float32), 2)
    assert set(items.ids_at(places[0])) == {"b", "c"}


def test_without_faiss_few_items_are_compared_one_by_one(tmp_path, monkeypatch, caplog):
    folder, entry = stored(tmp_path, kind="hnsw")
    monkeypatch.setitem(sys.modules, "faiss", None)
    items = load_items(folder, entry, "f")
    places, _ = items.search(np.array([[-1, 0]], np.float32), 1)
    assert items.ids_at(places[0]) == ["d"]
    assert "pip install 'fleetrec[ann]'" in caplog.text


def test_without_faiss_many_items_are_refused(tmp_path, monkeypatch):
    folder, entry = stored(tmp_path)
    monkeypatch.setitem(sys.modules, "faiss", None)
    monkeypatch.setattr(item_index, "BRUTE_FORCE_ITEMS", 3)
    with pytest.raises(UnavailableError, match=r"needs faiss: pip install 'fleetrec\[ann\]'"):
        load_items(folder, entry, "f")


def test_items_that_do_not_fit_the_manifest_are_damaged(tmp_path):
    folder, entry = stored(tmp_path, num_items=5, with_index=False)
    with pytest.raises(CheckpointError, match="expected 5 items, found 4"):
        load_items(folder, entry, "f")


def test_a_damaged_index_is_named(tmp_path):
    folder, entry = stored(tmp_path)
    content = b"no index"
    (tmp_path / "items/index.faiss").write_bytes(content)
    broken = Folder(
        url=folder.url, meta={}, files={**folder.files, "items/index.faiss": describe(content)}
    )
    with pytest.raises(CheckpointError, match=r"index\.faiss: faiss .* cannot load it"):
        load_items(broken, entry, "f")
