"""Tables of a model in memory, and what deltas do to them."""

import numpy as np
import pytest

from fleetrec._native import fold_ids
from fleetrec.checkpoint.folder import Folder
from fleetrec.checkpoint.staging import Staging
from fleetrec.core.errors import CheckpointError
from fleetrec.export.id_lists import keyed_ids
from fleetrec.export.manifest import GroupEntry, ModelManifest
from fleetrec.export.row_files import RowWriter
from fleetrec.export.serving_tables import ServingTables

NUM_SHOPS = 10
GROUPS = tuple(
    GroupEntry.model_validate(group)
    for group in (
        {
            "input": "embedded_2",
            "dim": 2,
            "features": [
                {"feature": "item", "table": "items", "combiner": "sum"},
                {"feature": "item", "table": "items", "combiner": "mean"},
            ],
            "sequences": [
                {
                    "input": "sequence_seen",
                    "lengths": "lengths_seen",
                    "feature": "item",
                    "table": "items",
                    "max_length": 2,
                }
            ],
        },
        {
            "input": "embedded_2_1",  # the same width, another optimizer
            "dim": 2,
            "features": [{"feature": "shop", "table": "shops", "combiner": "sum"}],
            "sequences": [],
        },
    )
)


def write(folder, name, tables, *, content="all"):
    """Write rows (by id) and removed ids of tables; returns folder and manifest."""
    staging = Staging(url=str(folder / name), target=str(folder / "unused"))
    files, entries = {}, {}
    for table, (rows, removed) in tables.items():
        writer = RowWriter(staging, table, dim=2)
        writer.add(np.array(list(rows), np.uint64), np.array(list(rows.values()), np.float32))
        writer.remove(np.array(removed, np.uint64))
        hashed = NUM_SHOPS if table == "shops" else None
        entries[table] = writer.finish(content=content, hashed_into=hashed)
        files |= writer.files
    manifest = ModelManifest(type="base", graphs=(), tables=entries)
    return Folder(url=staging.url, meta={}, files=files), manifest


@pytest.fixture
def tables(tmp_path):
    shops = {number: [number, -number] for number in range(NUM_SHOPS)}
    items = {1: [1, 10], 2: [2, 20], 2**63 + 5: [4, 40]}
    folder, manifest = write(tmp_path, "base", {"items": (items, []), "shops": (shops, [])})
    made = ServingTables(GROUPS, manifest.tables)
    made.apply(made.prepare(folder, manifest))
    return made


def look_up(tables, items, shops):
    feeds = {"item": items, "shop": shops}
    return tables.look_up(keyed_ids(feeds, {}, num_samples=len(items)))


def test_groups_of_one_width_and_sequences_have_their_own_inputs(tables):
    shop = 12345678901
    found = look_up(tables, [[1, 2, 99], [2**63 + 5]], [[shop], []])
    assert found["embedded_2"].tolist() == [[3, 30, 1, 10], [4, 40, 4, 40]]
    assert found["sequence_seen"].tolist() == [[[2, 20], [0, 0]], [[4, 40], [0, 0]]]
    assert found["lengths_seen"].tolist() == [2, 1]
    row = int(fold_ids(np.array([shop]), num_rows=NUM_SHOPS)[0])
    assert found["embedded_2_1"].tolist() == [[row, -row], [0, 0]]


def test_changes_replace_add_and_remove_rows(tables, tmp_path):
    changed = {"items": ({2: [7, 70], 3: [8, 80]}, [1, 555]), "shops": ({4: [9, 9]}, [6])}
    prepared = tables.prepare(*write(tmp_path, "delta", changed, content="changes"))
    assert len(tables) == 3 + NUM_SHOPS  # nothing has changed yet
    tables.apply(prepared)
    assert len(tables) == 3 + NUM_SHOPS - 1
    found = look_up(tables, [[1], [2], [3], [2**63 + 5]], [[4], [6], [5], []])
    assert found["embedded_2"][:, :2].tolist() == [[0, 0], [7, 70], [8, 80], [4, 40]]
    assert found["embedded_2_1"].tolist() == [[9, 9], [0, 0], [5, -5], [0, 0]]


def test_whole_tables_replace_what_was_there(tables, tmp_path):
    tables.apply(tables.prepare(*write(tmp_path, "whole", {"items": ({3: [8, 80]}, [])})))
    found = look_up(tables, [[1], [3]], [[5], [5]])
    assert found["embedded_2"][:, :2].tolist() == [[0, 0], [8, 80]]
    assert found["embedded_2_1"].tolist() == [[5, -5], [5, -5]]


@pytest.mark.parametrize("content", ["all", "changes"])
def test_a_row_beyond_the_range_of_a_hashed_table_is_refused(tables, tmp_path, content):
    wrong = write(tmp_path, "wrong", {"shops": ({NUM_SHOPS: [1, 1]}, [])}, content=content)
    with pytest.raises(CheckpointError, match=r"tables/shops: damaged: .*out of"):
        tables.prepare(*wrong)


def test_an_id_that_occurs_twice_is_refused(tables, tmp_path):
    folder, manifest = write(tmp_path, "twice", {"items": ({1: [1, 1]}, [])})
    entry = manifest.tables["items"]
    doubled = entry.model_copy(update={"rows": entry.rows * 2})
    with pytest.raises(CheckpointError, match="tables/items: damaged: id 1 occurs twice"):
        tables.prepare(folder, manifest.model_copy(update={"tables": {"items": doubled}}))
