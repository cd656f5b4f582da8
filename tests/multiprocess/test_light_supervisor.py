"""The process that supervises a job lives as long as the job, and loads nothing heavy for that."""

import subprocess
import sys

import pytest

from fleetrec.core.env import environment_with
from making import make_data, make_job, write_job

pytestmark = [pytest.mark.multiprocess, pytest.mark.cold]

HEAVY = {"torch", "numpy", "pyarrow", "grpc"}
SUPERVISOR = """
import atexit, sys
from pathlib import Path
atexit.register(lambda: Path("modules").write_text("\\n".join(sys.modules)))
from fleetrec.cli.main import main
main(sys.argv.pop(1))
"""


def modules_of_supervisor(folder, verb, *arguments):
    """Run a verb of the command line to its end; returns what its process has loaded."""
    done = subprocess.run(
        [sys.executable, "-c", SUPERVISOR, verb, *arguments],
        cwd=folder,
        env=environment_with({}, unless_set={"OMP_NUM_THREADS": "1"}),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return set((folder / "modules").read_text().split())


def test_the_supervisor_of_a_program_loads_nothing_heavy(tmp_path):
    program = (
        "import os, time\n"
        "from pathlib import Path\n"
        "if os.environ['TRAINING_ROLE'] == 'PSERVER': time.sleep(600)\n"
        "Path(os.environ['PADDLE_TRAINER_ID']).touch()\n"
    )
    (tmp_path / "train.py").write_text(program)
    loaded = modules_of_supervisor(tmp_path, "launch-ps", "--worker_num", "2", "train.py")
    assert "fleetrec.launch.supervisor" in loaded
    assert not loaded & HEAVY
    assert {path.name for path in tmp_path.glob("[01]")} == {"0", "1"}


@pytest.mark.parametrize(("fleet_mode", "worker_num"), [("ps", 1), ("collective", 2)])
def test_the_supervisor_of_a_runner_loads_no_torch(tmp_path, fleet_mode, worker_num):
    data = make_data(tmp_path / "data", num_samples=64, num_files=2)
    runner = {"class": "local_cluster_train", "fleet_mode": fleet_mode, "worker_num": worker_num}
    job = make_job(data, batch_size=16, **runner)
    write_job(job, tmp_path / "config.yaml")
    loaded = modules_of_supervisor(tmp_path, "run", "-m", "config.yaml")
    assert "fleetrec.launch.supervisor" in loaded
    assert not loaded & HEAVY
    assert (tmp_path / "ckpt").is_dir()
