"""Files and published folders on S3."""

import pytest

from fleetrec.checkpoint.folder import open_folder
from fleetrec.checkpoint.staging import Staging
from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError
from storing import FileContract, PublishContract, fill

s3fs = pytest.importorskip("s3fs")
pytest.importorskip("moto")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.multiprocess,
    # botocore's own, of Python versions and dates
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture
def place(bucket):
    return f"s3://{bucket}/place"


class TestFiles(FileContract):
    """Over ``place``."""


class TestPublishing(PublishContract):
    """Over ``place``."""


def test_a_large_file_arrives_in_several_pieces(place, tmp_path):
    content = bytes(range(256)) * (120 * 4096)  # 120 MiB: s3fs sends it in pieces
    with storage.writing(storage.join(place, "large")) as path:
        path.write_bytes(content)
    assert storage.size_of(storage.join(place, "large")) == len(content)
    with storage.local_copy(place) as folder:
        assert (folder / "large").read_bytes() == content


def test_a_missing_bucket_is_an_error_in_one_line(bucket):
    staging = Staging.create("s3://nowhere-at-all/ckpt/0")
    with pytest.raises(CheckpointError) as caught:
        fill(staging, a="1")
    message = str(caught.value)
    assert message.startswith("s3://nowhere-at-all/ckpt/0/files-")
    assert "bucket does not exist" in message
    assert "\n" not in message


def test_a_missing_checkpoint_is_an_error_in_one_line(place):
    with pytest.raises(CheckpointError, match=r"no checkpoint \(it has no MANIFEST"):
        open_folder(place, kind="checkpoint")


def test_missing_credentials_are_no_missing_checkpoint(place, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    s3fs.S3FileSystem.clear_instance_cache()
    for look in (storage.exists, storage.list_names, storage.read_bytes):
        with pytest.raises(CheckpointError, match="credentials"):
            look(place)
