"""The folder that a run leaves."""

from pathlib import Path

import pytest

from fleetrec.core.errors import CheckpointError
from fleetrec.core.place import Place
from fleetrec.train.run_folder import RunFolder, run_folder_of

SERVERS = ("127.0.0.1:1", "127.0.0.1:2")
WORKER = Place(rank=1, num_workers=3, server_endpoints=SERVERS)


@pytest.fixture
def folder(tmp_path):
    return RunFolder(path=tmp_path / "run", files={"job.yaml": "as it was"})


def test_a_run_is_known_by_its_id_and_leaves_its_files(folder):
    assert folder.run_id() is None
    folder.begin("abc", fresh=True)
    assert folder.run_id() == "abc"
    assert (folder.path / "job.yaml").read_text() == "as it was"


@pytest.mark.parametrize("fresh", [True, False])
def test_a_fresh_run_begins_with_empty_logs_and_a_resumed_one_adds_to_them(folder, fresh):
    folder.begin("abc", fresh=True)
    for path in (folder.log, folder.metrics):
        path.write_text("earlier\n")
    folder.begin("def", fresh=fresh)
    assert folder.log.exists() == folder.metrics.exists() == (not fresh)


@pytest.mark.parametrize("content", ["{}", "[]", "nonsense"])
def test_a_damaged_identity_is_named(folder, content):
    folder.begin("abc", fresh=True)
    (folder.path / "run.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"run\.json: damaged"):
        folder.run_id()


def test_workers_of_servers_have_journals_of_which_each_knows_all(folder):
    state = folder.path / "servers" / "3x2"
    assert folder.metric_journal(WORKER) == state / "worker.1.counted"
    assert folder.peer_journals(WORKER) == {
        0: state / "worker.0.counted",
        2: state / "worker.2.counted",
    }


@pytest.mark.parametrize("place", [Place(), Place(num_workers=2, store="127.0.0.1:1")])
def test_processes_without_servers_have_no_journal(folder, place):
    assert folder.metric_journal(place) is None
    assert folder.peer_journals(place) == {}


def test_the_folder_of_a_model_at_a_url_is_local_and_its_report_is_not(tmp_path):
    local = run_folder_of(str(tmp_path))
    assert (local.path, local.report) == (tmp_path, str(tmp_path / "report.html"))
    remote = run_folder_of("memory://bucket/models/ctr")
    assert remote.path == Path("logs/bucket.models.ctr")
    assert remote.report == "memory://bucket/models/ctr/report.html"
