"""Files and published folders, on this machine and behind URLs."""

import uuid
from pathlib import Path

import fsspec
import pytest

from fleetrec.checkpoint.staging import MANIFEST, Staging, delete_folder
from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError, UnavailableError
from storing import FileContract, PublishContract, is_published, publish


@pytest.fixture(params=["local", "memory"])
def place(request, tmp_path):
    """An empty folder that is not there yet."""
    if request.param == "local":
        yield str(tmp_path / "place")
        return
    name = uuid.uuid4().hex
    yield f"memory://{name}/place"
    storage.delete(f"memory://{name}")


class TestFiles(FileContract):
    """Over ``place``."""


class TestPublishing(PublishContract):
    """Over ``place``."""


@pytest.mark.parametrize(
    ("url", "parts", "joined", "name", "parent"),
    [
        ("/a/b", ("c",), "/a/b/c", "b", "/a"),
        ("a", ("b/c", "d"), "a/b/c/d", "a", "."),
        ("a/b/", (".", ""), "a/b", "b", "a"),
        ("file:///a/b", ("c",), "/a/b/c", "b", "/a"),
        ("s3://b/x/", ("y", "z"), "s3://b/x/y/z", "x", "s3://b"),
        ("memory://x/y", (".", "z/"), "memory://x/y/z", "y", "memory://x"),
    ],
)
def test_urls_are_joined_and_split(url, parts, joined, name, parent):
    assert storage.join(url, *parts) == joined
    assert storage.name_of(url) == name
    assert storage.parent_of(url) == parent


def test_a_path_is_a_url():
    assert storage.join(Path("a"), "b") == "a/b"
    assert storage.is_local("a/b")
    assert storage.is_local("file:///a")
    assert storage.local_path("file:///a") == Path("/a")
    assert not storage.is_local("s3://b/a")


def test_folders_on_different_storage_have_no_relative_reference(tmp_path):
    for other in (str(tmp_path), "s3://another/x", "memory://bucket/x"):
        with pytest.raises(CheckpointError, match="must be on the same storage"):
            storage.relative(other, to="s3://bucket/x")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("/etc", "expected a relative reference, got '/etc'"),
        ("s3://other/x", "expected a relative reference, got 's3://other/x'"),
        ("../../../x", "'../../../x' leads out of s3://bucket"),
    ],
)
def test_a_reference_stays_within_its_bucket(reference, message):
    with pytest.raises(ValueError, match=message):
        storage.resolve(reference, base="s3://bucket/a/b")


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


def test_an_unknown_scheme_is_an_error_in_one_line():
    with pytest.raises(CheckpointError, match=r"^nosuch://a: cannot be read: .*nosuch"):
        storage.read_bytes("nosuch://a")


def test_a_missing_package_says_what_to_install(monkeypatch):
    def lack(url):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec.core, "url_to_fs", lack)
    expected = (
        r"^s3://b/x: cannot be read: Install s3fs to access S3; pip install 'fleetrec\[s3\]'$"
    )
    with pytest.raises(UnavailableError, match=expected):
        storage.read_bytes("s3://b/x")


def test_credentials_are_never_shown(monkeypatch):
    url = "sftp://user:secret@host/x"

    def fail(url):
        raise RuntimeError(f"login to {url} failed")

    monkeypatch.setattr(fsspec.core, "url_to_fs", fail)
    with pytest.raises(CheckpointError) as caught:
        storage.read_bytes(url)
    assert (
        str(caught.value) == "sftp://***@host/x: cannot be read: login to sftp://***@host/x failed"
    )
    assert storage.shown("https://h/x?X-Amz-Signature=secret") == "https://h/x?..."
    assert storage.has_credentials(url)
    assert not storage.has_credentials("s3://b/a@b")
