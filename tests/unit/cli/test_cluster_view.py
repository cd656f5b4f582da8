"""What is shown of a job's processes, on a terminal and elsewhere."""

import dataclasses
import io
import logging
from pathlib import Path

import pytest
from rich.console import Console

from fleetrec.cli import cluster_view
from fleetrec.cli.cluster_view import ClusterView, process_table
from fleetrec.core.status import Status, read_status, write_status


@dataclasses.dataclass
class Shown:
    """What a view asks of a child."""

    role: str
    name: str
    status: Path
    state: str = "running"
    num_restarts: int = 0


@pytest.fixture
def children(tmp_path):
    worker = Shown("worker", "worker.0", tmp_path / "worker.json", num_restarts=2)
    status = Status(epoch=1, batch=20, per_s=12345.6, loss=0.51234, auc=0.75)
    write_status(worker.status, status)
    slow = Shown("worker", "worker.1", tmp_path / "slow.json")
    write_status(slow.status, Status(epoch=1, batch=17))
    return [Shown("server", "server.0", tmp_path / "server.json", state="waiting"), worker, slow]


def words(line):
    return " ".join(line.split())


def test_a_row_tells_all_that_is_known(children):
    console = Console(width=120, file=io.StringIO())
    console.print(process_table(children))
    head, server, worker, slow = console.file.getvalue().splitlines()
    assert words(head) == "process state progress restarts per s loss AUC queue lag"
    assert words(server) == "server.0 waiting"
    assert words(worker) == "worker.0 running epoch 1 batch 20 2 12,346 0.5123 0.7500 0"
    assert words(slow) == "worker.1 running epoch 1 batch 17 3"


def test_elsewhere_a_line_is_written_when_something_changed(children, caplog, monkeypatch):
    caplog.set_level(logging.INFO, logger="fleetrec")
    monkeypatch.setattr(cluster_view, "LINES_S", 0.0)
    with ClusterView() as view:
        view(children)
        view(children)
        write_status(children[0].status, Status(queue=3, per_s=70.0))
        view(children)
    assert caplog.messages == [
        "worker.0 running: epoch 1 batch 20, samples/s 12346, LOSS 0.5123, AUC 0.7500, lag 0",
        "worker.1 running: epoch 1 batch 17, lag 3",
        "server.0 waiting: calls/s 70, queue 3",
    ]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"colour": 1}', "null"])
def test_a_damaged_status_is_an_empty_one(tmp_path, text):
    path = tmp_path / "status"
    path.write_text(text)
    assert read_status(path) == read_status(tmp_path / "nowhere") == Status()


def test_a_status_is_read_as_it_was_written(tmp_path):
    status = Status(epoch=0, batch=1, per_s=1.5, loss=0.25, queue=2)
    write_status(tmp_path / "status", status)
    assert read_status(tmp_path / "status") == status
    assert [path.name for path in tmp_path.iterdir()] == ["status"]
