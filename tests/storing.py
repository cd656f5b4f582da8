"""The contract of storage, over a folder of any kind: ``place`` is its URL."""

import json

import pytest

from fleetrec.checkpoint.staging import MANIFEST, Staging, delete_folder
from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError, MissingFileError


def publish(target, **files):
    """Publish a folder of small files; returns the URL of each."""
    staging = Staging.create(target)
    fill(staging, **files)
    staging.publish({"files": sorted(files)})
    return read_published(target)


def fill(staging, **files):
    with staging.folder("part") as folder:
        for name, text in files.items():
            (folder / name).write_text(text)


def read_published(target):
    """Return what a reader finds: the files of the manifest, by name."""
    manifest = json.loads(storage.read_bytes(storage.join(target, MANIFEST)))
    root = storage.join(target, manifest.get("root", "."), "part")
    return {
        name: storage.read_bytes(storage.join(root, name)).decode() for name in manifest["files"]
    }


def is_published(target):
    return storage.exists(storage.join(target, MANIFEST))


class FileContract:
    """What every storage promises of files."""

    def test_a_file_is_read_as_it_was_written(self, place):
        url = storage.join(place, "deep", "er", "a.bin")
        storage.write_bytes(url, b"\x00one")
        assert storage.read_bytes(url) == b"\x00one"
        assert storage.size_of(url) == 4
        assert storage.exists(url)

    def test_a_file_is_replaced(self, place):
        url = storage.join(place, "a")
        storage.write_bytes(url, b"a long old text")
        storage.write_bytes(url, b"new")
        assert storage.read_bytes(url) == b"new"
        assert storage.list_names(place) == ["a"]

    def test_a_failed_write_leaves_the_old_file(self, place):
        url = storage.join(place, "a")
        storage.write_bytes(url, b"old")
        with pytest.raises(RuntimeError), storage.writing(url) as path:
            path.write_bytes(b"half")
            raise RuntimeError
        assert storage.read_bytes(url) == b"old"
        assert storage.list_names(place) == ["a"]

    def test_a_missing_file_is_an_error_of_its_own(self, place):
        url = storage.join(place, "nothing")
        assert not storage.exists(url)
        with pytest.raises(MissingFileError, match="nothing: cannot be read"):
            storage.read_bytes(url)
        with pytest.raises(MissingFileError, match="nothing: cannot be read"):
            storage.size_of(url)

    def test_children_are_listed_by_name(self, place):
        for name in ("b", "a/x", "c/y/z"):
            storage.write_bytes(storage.join(place, name), b"1")
        assert storage.list_names(place) == ["a", "b", "c"]
        assert storage.list_names(storage.join(place, "c")) == ["y"]
        assert storage.sizes_below(place) == {"a/x": 1, "b": 1, "c/y/z": 1}

    def test_a_test_of_writing_leaves_nothing(self, place):
        storage.write_bytes(storage.join(place, "a"), b"1")
        storage.check_writable(place)
        assert storage.list_names(place) == ["a"]

    def test_a_missing_folder_has_no_children(self, place):
        assert storage.list_names(storage.join(place, "nothing")) == []

    def test_new_files_are_seen_at_once(self, place):
        storage.write_bytes(storage.join(place, "a"), b"1")
        assert storage.list_names(place) == ["a"]
        storage.write_bytes(storage.join(place, "b"), b"1")
        assert storage.list_names(place) == ["a", "b"]

    def test_a_tree_is_deleted_with_all_files(self, place):
        for name in ("old/a", "old/b/c", "older/a"):
            storage.write_bytes(storage.join(place, name), b"1")
        storage.delete(storage.join(place, "old"))
        assert storage.list_names(place) == ["older"]
        storage.delete(storage.join(place, "nothing"))

    def test_a_local_copy_has_all_files(self, place):
        for name in ("t/a", "t/b/c"):
            storage.write_bytes(storage.join(place, name), name.encode())
        with storage.local_copy(storage.join(place, "t")) as folder:
            assert (folder / "a").read_bytes() == b"t/a"
            assert (folder / "b" / "c").read_bytes() == b"t/b/c"

    def test_an_error_about_a_local_copy_names_the_url(self, place):
        url = storage.join(place, "t")
        storage.write_bytes(storage.join(url, "a"), b"1")
        with pytest.raises(CheckpointError) as caught, storage.local_copy(url) as folder:
            raise CheckpointError(f"{folder / 'a'}: damaged")
        assert str(caught.value) == f"{storage.join(url, 'a')}: damaged"

    def test_a_relative_reference_survives_a_move_of_both(self, place):
        base, delta = storage.join(place, "x/base"), storage.join(place, "x/y/delta")
        reference = storage.relative(base, to=delta)
        assert reference == "../../base"
        assert storage.resolve(reference, base=delta) == base
        moved = storage.join(place, "moved")
        moved_delta = storage.join(moved, "y/delta")
        assert storage.resolve(reference, base=moved_delta) == storage.join(moved, "base")


class PublishContract:
    """What every storage promises of folders."""

    def test_a_folder_is_published_with_its_files(self, place):
        assert publish(storage.join(place, "deep", "0"), a="1", b="2") == {"a": "1", "b": "2"}

    def test_before_the_manifest_nothing_is_published(self, place):
        target = storage.join(place, "0")
        fill(Staging.create(target), a="half")  # and then the process is killed
        assert not is_published(target)
        assert publish(target, a="whole") == {"a": "whole"}

    def test_a_killed_attempt_leaves_the_old_folder_as_it_was(self, place):
        target = storage.join(place, "0")
        publish(target, a="old", b="old")
        fill(Staging.create(target), a="new")
        assert read_published(target) == {"a": "old", "b": "old"}

    def test_a_discarded_attempt_leaves_no_files(self, place):
        target = storage.join(place, "0")
        publish(target, a="old")
        before = storage.sizes_below(place)
        staging = Staging.create(target)
        fill(staging, a="new")
        staging.discard()
        assert storage.sizes_below(place) == before

    def test_a_failed_block_adds_no_file_to_what_is_published(self, place):
        staging = Staging.create(storage.join(place, "0"))
        with pytest.raises(RuntimeError), staging.folder("part"):
            raise RuntimeError
        assert not is_published(staging.target)

    def test_a_folder_is_replaced_as_a_whole(self, place):
        target = storage.join(place, "0")
        publish(target, a="old", b="old")
        assert publish(target, a="new") == {"a": "new"}
        assert len(storage.sizes_below(target)) == 2  # the file and the manifest

    def test_a_reader_of_a_replaced_folder_fails_and_mixes_nothing(self, place):
        target = storage.join(place, "0")
        publish(target, a="old", b="old")
        old = json.loads(storage.read_bytes(storage.join(target, MANIFEST)))
        publish(target, b="new")
        root = storage.join(target, old.get("root", "."), "part")
        with pytest.raises(MissingFileError):
            storage.read_bytes(storage.join(root, "a"))

    def test_several_processes_fill_one_staging(self, place):
        staging = Staging.create(storage.join(place, "0"))
        others = [Staging.open(staging.url) for _ in range(2)]
        assert others == [staging, staging]
        with others[0].folder("part") as first, others[1].folder("part") as second:
            (first / "0").write_text("0")
            (second / "1").write_text("1")
        assert storage.sizes_below(staging.url) == {"part/0": 1, "part/1": 1}
        staging.publish({"files": ["0", "1"]})
        assert read_published(staging.target) == {"0": "0", "1": "1"}

    def test_what_is_no_staging_is_not_opened(self, place):
        with pytest.raises(CheckpointError, match="not a folder that is being written"):
            Staging.open(storage.join(place, "0"))

    def test_old_folders_are_pruned(self, place):
        for name in ("1", "2", "10"):
            publish(storage.join(place, name), a=name)
        for name in sorted(storage.list_names(place), key=int)[:-1]:
            delete_folder(storage.join(place, name))
        assert storage.list_names(place) == ["10"]
        assert read_published(storage.join(place, "10")) == {"a": "10"}
