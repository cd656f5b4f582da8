"""Files at local paths and behind URLs."""

from pathlib import Path

import fsspec
import pytest

from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError, UnavailableError
from storing import FileContract


class TestFiles(FileContract):
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
    for harmless in ("s3://b/a:b@c", "abfs://container@account/x", "sftp://user@host/x"):
        assert not storage.has_credentials(harmless)
        assert storage.shown(harmless) == harmless
