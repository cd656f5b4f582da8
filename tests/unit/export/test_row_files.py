"""Rows in files of bounded size."""

import numpy as np
import pytest

from fleetrec.checkpoint.folder import Folder
from fleetrec.checkpoint.staging import Staging
from fleetrec.core.errors import CheckpointError
from fleetrec.export.row_files import RowWriter, read_removed, read_rows

DIM = 3


def make_rows(num_rows, *, seed=0):
    rng = np.random.default_rng(seed)
    ids = rng.choice(2**40, num_rows, replace=False).astype(np.uint64)
    ids[: num_rows // 2] += np.uint64(2**63)  # beyond what an int64 holds
    return ids, rng.standard_normal((num_rows, DIM)).astype(np.float32)


def write(tmp_path, blocks, removed=(), *, max_bytes=2**20, row_type="float32"):
    staging = Staging(url=str(tmp_path / "staging"), target=str(tmp_path / "model"))
    writer = RowWriter(staging, "items", dim=DIM, max_bytes=max_bytes, row_type=row_type)
    for ids, rows in blocks:
        writer.add(ids, rows)
    if len(removed):
        writer.remove(np.array(removed, np.uint64))
    entry = writer.finish(content="changes", hashed_into=None)
    return Folder(url=staging.url, meta={}, files=writer.files), entry


def test_rows_come_back_in_files_that_are_sorted_and_small(tmp_path):
    ids, rows = make_rows(1000)
    blocks = [(ids[a : a + 64], rows[a : a + 64]) for a in range(0, 1000, 64)]
    folder, entry = write(tmp_path, blocks, max_bytes=1024 + 100 * 20)
    assert entry.num_rows == 1000
    assert len(entry.rows) == 10
    assert all(entry["bytes"] <= 1024 + 100 * 20 for entry in folder.files.values())
    found = {}
    for its_ids, its_rows in read_rows(folder, entry):
        assert (np.diff(its_ids.astype(object)) > 0).all()
        found |= dict(zip(its_ids.tolist(), its_rows.tolist(), strict=True))
    assert found == dict(zip(ids.tolist(), rows.tolist(), strict=True))


def test_a_block_larger_than_a_file_is_split(tmp_path):
    folder, entry = write(tmp_path, [make_rows(25)], max_bytes=1024 + 10 * 20)
    assert [len(ids) for ids, _ in read_rows(folder, entry)] == [10, 10, 5]


def test_a_file_has_room_for_one_row_at_least(tmp_path):
    _, entry = write(tmp_path, [make_rows(3)], max_bytes=1)
    assert len(entry.rows) == 3


def test_removed_ids_are_sorted_and_come_back(tmp_path):
    removed = [7, 2**64 - 1, 3]
    folder, entry = write(tmp_path, [], removed, max_bytes=1024 + 16)
    assert (entry.num_rows, entry.num_removed, len(entry.removed)) == (0, 3, 2)
    assert read_removed(folder, entry).tolist() == [3, 7, 2**64 - 1]


def test_a_table_without_rows_has_no_files(tmp_path):
    folder, entry = write(tmp_path, [make_rows(0)])
    assert (entry.rows, entry.removed, dict(folder.files)) == ((), (), {})
    assert read_removed(folder, entry).tolist() == []


def test_a_changed_byte_is_found(tmp_path):
    folder, entry = write(tmp_path, [make_rows(5)], [1])
    for name in (*entry.rows, *entry.removed):
        path = tmp_path / "staging" / name
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"rows-00000.safetensors: damaged"):
        list(read_rows(folder, entry))
    with pytest.raises(CheckpointError, match=r"removed-00000.safetensors: damaged"):
        read_removed(folder, entry)


def test_rows_of_another_width_are_refused(tmp_path):
    folder, entry = write(tmp_path, [make_rows(5)])
    with pytest.raises(CheckpointError, match="expected ids and rows of width 4"):
        list(read_rows(folder, entry.model_copy(update={"dim": 4})))


@pytest.mark.parametrize(("row_type", "error"), [("float16", 2**-11), ("int8", 0.5 / 127)])
def test_rows_of_fewer_bits_come_back_as_float32_within_their_error(tmp_path, row_type, error):
    ids, rows = make_rows(500)
    rows[3] = 0
    rows[4] *= 1e-3
    folder, entry = write(tmp_path, [(ids, rows)], row_type=row_type)
    assert entry.row_type == row_type
    ((its_ids, its_rows),) = read_rows(folder, entry)
    assert its_rows.dtype == np.float32
    order = np.argsort(ids)
    np.testing.assert_array_equal(its_ids, ids[order])
    largest = np.abs(rows[order]).max(axis=1, keepdims=True)
    assert (np.abs(its_rows - rows[order]) <= error * largest * 1.001 + 1e-7).all()
    whole, _ = write(tmp_path / "whole", [(ids, rows)])
    assert sum(e["bytes"] for e in folder.files.values()) < sum(
        e["bytes"] for e in whole.files.values()
    )


def test_numbers_beyond_float16_are_clipped(tmp_path):
    rows = np.array([[1e6, -1e6, 1.0]], np.float32)
    folder, entry = write(tmp_path, [(np.array([1], np.uint64), rows)], row_type="float16")
    ((_, found),) = read_rows(folder, entry)
    assert found.tolist() == [[65504.0, -65504.0, 1.0]]


def test_rows_of_another_type_than_the_manifest_says_are_refused(tmp_path):
    folder, entry = write(tmp_path, [make_rows(5)], row_type="int8")
    other = entry.model_copy(update={"row_type": "float32"})
    with pytest.raises(CheckpointError, match="damaged: expected ids and rows"):
        list(read_rows(folder, other))
