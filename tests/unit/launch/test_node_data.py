"""Data of a process on a node: shares, links, folders of its own, uploads."""

import os
import subprocess
import sys

import fsspec
import pytest

from fleetrec.cli import node
from fleetrec.core.errors import DataError
from fleetrec.core.place import Place
from fleetrec.data.files import list_files
from fleetrec.data.plan import DataShard, plan_slices
from fleetrec.launch import node_data

URL = "memory://bucket/train"


@pytest.fixture
def remote(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    system = fsspec.filesystem("memory")
    for index in range(5):
        system.pipe(f"/bucket/train/day/part-{index}", f"line {index}\n".encode())
    for name in ("_SUCCESS", ".hidden", "day/.crc"):
        system.pipe(f"/bucket/train/{name}", b"")
    yield system
    system.rm("/bucket", recursive=True)


def names_below(folder):
    return sorted(path.name for path in folder.rglob("part-*"))


def test_workers_have_contiguous_shares_of_the_files(remote, tmp_path):
    found = []
    for rank in range(2):
        place = Place(rank=rank, num_workers=2, server_endpoints=("a:1",))
        part = node_data.share_of(URL, place)
        node_data.fetch(URL, tmp_path / str(rank), part=part)
        found.append(names_below(tmp_path / str(rank)))
    assert found == [["part-0", "part-1", "part-2"], ["part-3", "part-4"]]


def test_all_workers_fetch_all_of_fewer_files(remote):
    assert node_data.share_of(URL, Place(rank=1, num_workers=6)) is None


def test_a_share_is_what_the_data_set_would_give_the_worker(remote, tmp_path):
    node_data.fetch(URL, tmp_path / "all")
    everything = list_files(str(tmp_path / "all"))
    for rank in range(3):
        place = Place(rank=rank, num_workers=3, server_endpoints=("a:1",))
        own = tmp_path / f"own{rank}"
        node_data.fetch(URL, own, part=node_data.share_of(URL, place))
        wanted = plan_slices(everything, None, DataShard(index=rank, count=3))
        shard = DataShard(index=rank, count=3, own_folder=str(own))
        got = plan_slices(list_files(str(own)), None, shard)
        assert [one.file.name for one in got] == [one.file.name for one in wanted]


def test_files_of_all_are_divided_although_a_worker_has_own_ones(tmp_path):
    for name in ("own/a", "test/a", "test/b"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1\n")
    shard = DataShard(index=0, count=2, own_folder=str(tmp_path / "own"))
    assert [
        one.file.name for one in plan_slices(list_files(str(tmp_path / "test")), None, shard)
    ] == ["a"]


def test_a_shared_folder_is_complete_when_the_last_worker_has_fetched(remote, tmp_path):
    folder = tmp_path / "train_data"
    sizes = node_data.list_files(URL)
    node_data.fetch_files(URL, list(sizes)[3:], folder)  # those of worker 1
    count = node_data.fetch_together(URL, folder, Place(rank=0, num_workers=2))
    assert count == 5
    assert names_below(folder) == [f"part-{index}" for index in range(5)]


def test_shares_that_do_not_arrive_are_an_error(remote, tmp_path, monkeypatch):
    monkeypatch.setattr(node_data, "SILENCE_S", 0.0)
    with pytest.raises(
        DataError, match=r"other workers have not fetched day/part-3.*shared_folder"
    ):
        node_data.fetch_together(URL, tmp_path / "d", Place(rank=0, num_workers=2))


def test_a_folder_of_the_node_is_linked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a").write_text("1")
    for _ in range(2):  # a restarted process finds the link
        assert node_data.fetch(str(tmp_path / "data"), tmp_path / "train_data") == 1
    assert (tmp_path / "train_data/a").read_text() == "1"
    with pytest.raises(DataError, match="no such folder on this node"):
        node_data.fetch(str(tmp_path / "none"), tmp_path / "test_data")


def test_missing_data_is_named_without_credentials(remote, tmp_path):
    with pytest.raises(DataError, match="memory://bucket/none: no such folder, or it holds no"):
        node_data.fetch("memory://bucket/none", tmp_path / "d")


def test_two_processes_of_a_machine_do_not_share_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text("mode: x\n")
    first = node_data.own_folder(Place(rank=0, num_workers=2))
    code = (
        "from fleetrec.launch import node_data; from fleetrec.core.place import Place\n"
        "print(node_data.own_folder(Place(rank=1, num_workers=2)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert first == tmp_path
    assert done.stdout.strip() == str(tmp_path / ".worker.1")
    assert (tmp_path / ".worker.1/config.yaml").read_text() == "mode: x\n"


def test_only_new_and_changed_files_are_uploaded(remote, tmp_path):
    (tmp_path / "model.py").write_text("1")
    (tmp_path / "old").mkdir()
    (tmp_path / "old/kept").write_text("1")
    (tmp_path / "train_data").mkdir()
    before = node_data.snapshot(tmp_path, without=("train_data",))
    for name in ("ckpt/0/MANIFEST.json", "train_data/part", ".hidden", "servers/0/journal"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("new")
    (tmp_path / "old/kept").write_text("changed")
    url = "memory://bucket/out"
    count = node_data.upload_new(tmp_path, url, before=before, without=("train_data",))
    assert count == 2
    assert sorted(remote.find("/bucket/out")) == [
        "/bucket/out/ckpt/0/MANIFEST.json",
        "/bucket/out/old/kept",
    ]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["python", "-m", "x"], [sys.executable, "-m", "x"]),
        (["python3.11", "a.py"], [sys.executable, "a.py"]),
        (["sh", "-c", "python a"], ["sh", "-c", "python a"]),
    ],
)
def test_python_is_the_interpreter_that_has_fleetrec(command, words):
    assert node._with_own_python(command) == words


def test_the_status_of_the_command_is_that_of_the_node(tmp_path):
    env = {"PATH": os.defpath}
    assert node._run(["sh", "-c", "exit 3"], env, tmp_path) == 3
    assert node._run(["sh", "-c", "kill -9 $$"], env, tmp_path) == 128 + 9
