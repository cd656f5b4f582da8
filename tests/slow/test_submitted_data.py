"""Jobs of which every worker has a folder of its own with its part of the data."""

import functools
import http.server
import threading
import time
from pathlib import Path

import pytest

from fleetrec.cli.submit import engine_of, submit_command
from fleetrec.cli.submit_plan import SubmitRequest
from fleetrec.launch.submission import load_record
from making import make_data, tensors_of
from making_cluster import make_workspace, write_yaml

pytestmark = pytest.mark.slow
NUM_SAMPLES = 300
TIMEOUT_S = 300


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        pass


@pytest.fixture
def url(tmp_path):
    data = make_data(tmp_path / "remote/train", num_samples=NUM_SAMPLES, num_files=5)
    handler = functools.partial(Quiet, directory=str(data.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/train/"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("is_shared", [True, False])
def test_the_parts_of_all_workers_are_the_data(tmp_path, monkeypatch, url, is_shared):
    pytest.importorskip("aiohttp")
    folder = make_workspace(tmp_path / "work")
    monkeypatch.chdir(folder)
    checkpoints = tmp_path / "ckpt"
    config = (folder / "config.yaml").read_text()
    config = config.replace(
        "save_checkpoint_path: increment_dnn", f"save_checkpoint_path: {checkpoints}"
    )
    (folder / "config.yaml").write_text(config.replace("epochs: 2", "epochs: 1"))
    write_yaml(
        folder / "backend.yaml",
        {
            "backend": "local",
            "config": {"train_data_path": url, "shared_folder": is_shared},
            "submit": {"job_name": "try", "files": "*.py", "workers": 2, "servers": 1},
        },
    )
    submit_command(SubmitRequest(model="config.yaml", backend_file=Path("backend.yaml")))
    (made,) = folder.glob("try_*")
    record = load_record(made)
    engine, job_id = engine_of(record, made), record.submissions[-1].job_id
    deadline = time.monotonic() + TIMEOUT_S
    while not (status := engine.status(made, job_id)).has_ended:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    lines = "\n".join(engine.logs(made, job_id))
    assert status.state == "succeeded", lines
    assert f"SAMPLES=[{NUM_SAMPLES}]" in lines
    assert tensors_of(checkpoints / "0")
    if not is_shared:
        assert "./train_data: 3 files of this worker" in lines
        assert "./train_data: 2 files of this worker" in lines
