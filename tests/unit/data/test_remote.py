"""Files behind URLs; S3 itself is in tests/slow."""

import importlib
import sys

import fsspec
import pytest

from fleetrec.core.errors import DataError, UnavailableError
from fleetrec.data.files import list_files
from fleetrec.data.loader import Loader
from making_data import SAMPLES, WRITERS, make_options, read_block, to_comparable


@pytest.fixture
def memory():
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()
    system.pseudo_dirs[:] = [""]


def test_files_behind_a_url_are_listed(memory):
    for name in ("day/part-1", "day/part-0", "day/_SUCCESS", "day/.hidden", "day/more/part-2"):
        memory.pipe(f"/{name}", b"click:1\n")
    files = list_files("memory://day")
    assert [file.name for file in files] == ["more/part-2", "part-0", "part-1"]
    assert [file.num_bytes for file in files] == [8, 8, 8]
    assert [file.name for file in list_files("memory://day/part-*")] == ["part-0", "part-1"]
    assert [file.name for file in list_files("memory://day/part-0")] == ["part-0"]


def test_a_file_that_has_come_since_is_listed(memory):
    memory.pipe("/day/part-0", b"")
    assert len(list_files("memory://day")) == 1
    memory.pipe("/day/part-1", b"")
    assert len(list_files("memory://day")) == 2


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_every_format_is_read_behind_a_url(memory, name, tmp_path):
    local = WRITERS[name](SAMPLES, tmp_path / name)
    memory.pipe(f"/data/{name}", local.read_bytes())
    assert to_comparable(read_block(f"memory://data/{name}")) == to_comparable(read_block(local))


def test_a_loader_reads_behind_a_url(memory, tmp_path):
    local = WRITERS["table.parquet"](SAMPLES, tmp_path / "t.parquet")
    memory.pipe("/data/t.parquet", local.read_bytes())
    loader = Loader(make_options("memory://data"), seed=0)
    with loader.epoch(0) as batches:
        assert sum(batch.num_samples for batch in batches) == len(SAMPLES)


def test_an_empty_folder_is_an_error(memory):
    with pytest.raises(DataError, match="memory://nothing: no such file or folder"):
        list_files("memory://nothing")


def test_an_unknown_protocol_is_an_error():
    with pytest.raises(DataError, match=r"^nowhere://x: cannot be listed: Protocol not known"):
        list_files("nowhere://x")


def test_without_s3fs_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    registry = importlib.import_module("fsspec.registry")
    monkeypatch.delitem(registry._registry, "s3", raising=False)  # where it was used before
    with pytest.raises(
        UnavailableError, match=r"^s3://x/y: cannot be listed: .*'fleetrec\[s3\]'"
    ) as caught:
        list_files("s3://x/y")
    assert "\n" not in str(caught.value)


def test_hdfs_that_is_not_there_is_an_error_in_one_line():
    with pytest.raises(DataError, match=r"^hdfs://nowhere:1/x: cannot be listed: ") as caught:
        list_files("hdfs://nowhere:1/x")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_gone_is_an_error_in_one_line(memory, tmp_path):
    memory.pipe("/data/t.csv", b"click\n1\n")
    (file,) = list_files("memory://data")
    memory.rm("/data/t.csv")
    with pytest.raises(DataError, match=r"t.csv: cannot be opened: ") as caught:
        file.open()
    assert "\n" not in str(caught.value)
