"""One process of a run, from its place to its results."""

import json

import pytest
import torch

from fleetrec.cli.job import load_job
from fleetrec.cli.process import run_process, with_worker_dump_path
from fleetrec.core.errors import DataError
from fleetrec.core.place import Place
from fleetrec.parallel.solo import SoloGroup
from fleetrec.train.run_folder import RunFolder
from making import make_data, make_job, write_job


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = make_data(tmp_path / "data", num_samples=64, num_files=1)
    job = make_job(data, epochs=1, print_interval=1)
    return load_job(str(write_job(job, tmp_path / "job.yaml"))).runs[0]


@pytest.fixture
def folder(tmp_path):
    return RunFolder(path=tmp_path / "folder", files={"note.txt": "as it was run"})


def test_a_run_leaves_its_log_its_metrics_its_report_and_its_files(run, folder):
    run_process(run, Place(), folder=folder, resume=False)
    events = [json.loads(line)["event"] for line in folder.metrics.read_text().splitlines()]
    assert set(events) == {"interval", "pass", "saved"}
    assert "Runner train Finish" in folder.log.read_text()
    assert (folder.path / "report.html").is_file()
    assert (folder.path / "note.txt").read_text() == "as it was run"


def test_a_new_run_has_a_new_id_and_a_resumed_one_keeps_it(run, folder):
    run_process(run, Place(), folder=folder, resume=False)
    first = folder.run_id()
    run_process(run, Place(), folder=folder, resume=True)
    assert folder.run_id() == first
    assert "Runner train Begin" in folder.log.read_text().partition("Runner train Finish")[2]
    run_process(run, Place(), folder=folder, resume=False)
    assert folder.run_id() != first


def test_a_run_that_cannot_start_leaves_the_last_one_as_it_was(run, folder, tmp_path):
    run_process(run, Place(), folder=folder, resume=False)
    before = folder.log.read_text()
    (tmp_path / "data/part-0").unlink()
    with pytest.raises(DataError):
        run_process(run, Place(), folder=folder, resume=False)
    assert folder.log.read_text() == before


def test_a_run_that_fails_has_a_report_and_a_log_that_says_why(run, folder, tmp_path):
    (tmp_path / "data/part-0").write_text("click:1 nonsense\n")
    with pytest.raises(DataError):
        run_process(run, Place(), folder=folder, resume=False)
    assert "'nonsense': expected slot:value" in folder.log.read_text()
    assert (folder.path / "report.html").is_file()


def test_a_supervised_process_leaves_the_folder_to_its_supervisor(run, folder):
    folder.begin("its id", fresh=True)
    run_process(run, Place(is_supervised=True), folder=folder, resume=False)
    assert folder.run_id() == "its id"
    assert not folder.log.exists()
    assert not (folder.path / "report.html").exists()
    assert folder.metrics.is_file()


class TwoWorkers(SoloGroup):
    rank = 1
    size = 2


def test_every_worker_dumps_into_a_file_of_its_own(run):
    dumping = run.model_copy(update={"dump_path": "out/result.json"})
    device = torch.device("cpu")
    assert with_worker_dump_path(dumping, SoloGroup(device)).dump_path == "out/result.json"
    own = with_worker_dump_path(dumping, TwoWorkers(device)).dump_path
    assert own == "out/result.json_worker_1"
