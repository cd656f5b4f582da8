"""Everything that workers do together through the Fleet API, over real servers."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fleetrec.core.env import environment_with
from fleetrec.export.predictor import Predictor
from making import columns_of, tables_of

pytestmark = pytest.mark.multiprocess

NUM_ROWS = 300
PROGRAM = Path(__file__).with_name("fleet_program.py")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return the folder of a job that has trained, and what its workers told."""
    folder = tmp_path_factory.mktemp("fleet")
    shutil.copy(PROGRAM, folder / "train.py")
    (folder / "data").mkdir()
    rows = [f"1 {row % 7} 1 {row % 40} 1 {int(row % 40 % 3 == 0)}\n" for row in range(NUM_ROWS)]
    for part in range(3):
        (folder / f"data/part-{part}").write_text("".join(rows[part * 100 : part * 100 + 100]))
    done = subprocess.run(
        launch("--worker_num", "2", "--server_num", "2", "train.py", "train"),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, told_by(folder)


def launch(*arguments):
    return [sys.executable, "-m", "fleetrec.launch_ps", *arguments]


def told_by(folder):
    logs = sorted((folder / "logs").glob("workerlog.*"))
    return [json.loads(log.read_text().splitlines()[-1]) for log in logs]


def test_a_global_shuffle_deals_all_samples_to_all_workers(trained):
    _, told = trained
    before, after = ([one[name] for one in told] for name in ("before", "after"))
    assert [len(items) for items in before] == [200, 100]
    assert sorted(before[0] + before[1]) == sorted(after[0] + after[1])
    assert all(100 < len(items) < 200 for items in after)


def test_servers_log_where_they_serve(trained):
    folder, _ = trained
    logs = sorted((folder / "logs").glob("serverlog.*"))
    assert logs
    for index, log in enumerate(logs):
        assert f"server {index} of {len(logs)} serves on 127.0.0.1:" in log.read_text()


def test_workers_tell_each_other_numbers(trained):
    _, told = trained
    assert [one["sum"] for one in told] == [3, 3]
    assert [one["all"] for one in told] == [[0.0, 1.0]] * 2


def test_figures_are_about_all_workers(trained):
    _, told = trained
    assert told[0]["train"] == told[1]["train"]
    assert told[0]["train"]["SAMPLES"] == NUM_ROWS
    assert told[0]["infer"] == told[1]["infer"]
    assert told[0]["infer"]["AUC"] > 0.9


def test_an_inference_model_answers_as_the_workers_did(trained):
    folder, _ = trained
    predictor = Predictor(folder / "inference")
    answer = predictor.predict({"price": np.zeros((2, 1), np.float32), "item": [[3], [4]]})
    assert list(answer) == ["predict"]
    assert answer["predict"][0] > answer["predict"][1]


def test_a_job_on_two_machines_begins_with_a_saved_model(trained, tmp_path):
    """Two loopback addresses stand for two machines, which share a file system."""
    trained_folder, told_before = trained
    folder = tmp_path / "shared"
    shutil.copytree(trained_folder, folder, ignore=shutil.ignore_patterns("logs"))
    machines = ["127.0.0.1", "127.0.0.2"]
    launchers = [
        subprocess.Popen(
            launch(
                *("--worker_num", "2", "--server_num", "2", "--start_port", "21370"),
                *("--node_ip", ip, "--cluster_node_ips", ",".join(machines)),
                *("--log_dir", f"out-{ip}", "train.py", "reload"),
            ),
            cwd=folder,
            env=environment_with({"FLEETREC_TOKEN": "hush"}, unless_set={}),
        )
        for ip in machines
    ]
    assert [launcher.wait(timeout=300) for launcher in launchers] == [0, 0]
    told = json.loads((folder / "out-127.0.0.1/workerlog.0").read_text().splitlines()[-1])
    assert told["first"] != told["infer"] == told_before[0]["infer"]
    saved = [tables_of(folder / name)[0] for name in ("model", "rows_only")]
    rows = [columns_of(table) for _, _, table in saved]
    np.testing.assert_array_equal(rows[0]["ids"], rows[1]["ids"])
    np.testing.assert_array_equal(rows[0]["rows"], rows[1]["rows"])
    assert not list(folder.glob("out-*/servers"))


def test_a_server_refuses_a_path_without_a_checkpoint(trained, tmp_path):
    folder, _ = trained
    (tmp_path / "train.py").write_text((folder / "train.py").read_text())
    done = subprocess.run(
        launch("train.py", "reload"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1
    assert "--- the end of logs/serverlog.0" in done.stderr
    assert "CheckpointError: model: " in done.stderr
