"""Folders are published as a whole, at local paths and behind URLs."""

import json
import re
import uuid

import pytest

from fleetrec.checkpoint.staging import MANIFEST, Staging, delete_folder
from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError
from storing import PublishContract, fill, is_published, publish


class TestPublishing(PublishContract):
    """Over ``place``."""


def test_a_staging_on_another_machine_is_not_made_by_opening_it(tmp_path):
    staging = Staging.create(tmp_path / "0")
    staging.discard()
    with pytest.raises(CheckpointError, match="no such folder on this machine"):
        Staging.open(staging.url)
    assert list(tmp_path.iterdir()) == []


def test_a_local_folder_has_its_files_beside_the_manifest(tmp_path):
    publish(tmp_path / "0", a="1")
    assert (tmp_path / "0" / "part" / "a").read_text() == "1"
    assert '"root"' not in (tmp_path / "0" / MANIFEST).read_text()


def test_a_folder_behind_a_url_names_where_its_files_are():
    target = f"memory://{uuid.uuid4().hex}/0"
    staging = Staging.create(target)
    fill(staging, a="1")
    staging.publish({"kind": "checkpoint"})
    manifest = json.loads(storage.read_bytes(storage.join(target, MANIFEST)))
    assert manifest == {"kind": "checkpoint", "root": staging.root}
    assert re.fullmatch("files-[0-9a-f]{16}", staging.root)
    assert set(storage.sizes_below(target)) == {MANIFEST, f"{staging.root}/part/a"}


def test_a_folder_that_is_deleted_half_way_is_not_published(place, monkeypatch):
    target = storage.join(place, "0")
    publish(target, a="1")
    delete = storage.delete

    def crash_on_folders(url):
        if url == target:
            raise KeyboardInterrupt
        delete(url)

    monkeypatch.setattr(storage, "delete", crash_on_folders)
    with pytest.raises(KeyboardInterrupt):
        delete_folder(target)
    assert not is_published(target)


def test_a_failed_sweep_does_not_undo_what_is_published(monkeypatch, caplog):
    target = f"memory://{uuid.uuid4().hex}/0"
    publish(target, a="old")

    def refuse(url):
        raise CheckpointError(f"{url}: cannot be deleted: forbidden")

    monkeypatch.setattr(storage, "delete", refuse)
    assert publish(target, a="new") == {"a": "new"}
    assert "files of an older attempt are left" in caplog.text


def test_an_unwritable_folder_is_an_error_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="file/0: cannot be written: "):
        Staging.create(tmp_path / "file" / "0")
