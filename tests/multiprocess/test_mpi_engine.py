"""Jobs of mpirun, with a stand-in for it that starts the processes on this machine."""

import dataclasses
import json
import os
import signal

import pytest

from fleetrec.config.cluster.mpi import MpiOptions
from fleetrec.core.errors import ConfigError, UnavailableError
from fleetrec.core.launchers.precedence import place_of
from fleetrec.launch.mpi import MpiEngine
from multiprocess.launching import is_running, make_job, numbers_in, wait_until, wait_until_gone
from multiprocess.standins import MPIRUN, install

pytestmark = pytest.mark.multiprocess

PLACE = "import os, json, time; print(json.dumps(dict(os.environ)), flush=True)\n"
PID = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"


@pytest.fixture
def engine(tmp_path, monkeypatch):
    install(tmp_path / "bin", monkeypatch, mpirun=MPIRUN)
    return MpiEngine(MpiOptions(hosts=["localhost:1", "127.0.0.1:1"], interface="lo"))


def submit(engine, folder, job):
    engine.render(dataclasses.replace(job, env={"FLEETREC_TOKEN": "hush"}), folder)
    return engine.submit(folder).job_id


def end_of(engine, folder, job_id):
    wait_until(lambda: engine.status(folder, job_id).has_ended, "the end of the job")
    return engine.status(folder, job_id)


def environments(folder, *names):
    return [json.loads((folder / "logs" / name).read_text().splitlines()[-1]) for name in names]


def test_a_job_runs_its_servers_and_workers(engine, tmp_path):
    job = make_job(server=PLACE, worker=PLACE, num_servers=2, num_workers=2)
    folder = tmp_path / "job"
    job_id = submit(engine, folder, job)
    status = end_of(engine, folder, job_id)
    assert status.state == "succeeded", list(engine.logs(folder, job_id))
    found = environments(folder, "server.0", "server.1", "worker.0", "worker.1")
    places = [place_of(variables) for variables in found]
    assert [(p.role, p.rank, p.size) for p in places] == [
        ("server", 0, 2),
        ("server", 1, 2),
        ("worker", 0, 2),
        ("worker", 1, 2),
    ]
    assert len({place.server_endpoints for place in places}) == 1
    assert {variables["FLEETREC_TOKEN"] for variables in found} == {"hush"}
    states = [found[server]["FLEETREC_STATE"] for server in range(2)]
    assert states == [f"{folder}/servers/{job_id}/{server}" for server in range(2)]


def test_logs_name_the_process_of_each_line(engine, tmp_path):
    job = make_job(server="print('served')", worker="print('trained')")
    job_id = submit(engine, tmp_path / "job", job)
    end_of(engine, tmp_path / "job", job_id)
    lines = list(engine.logs(tmp_path / "job", job_id))
    assert lines[-2:] == ["server.0: served", "worker.0: trained"]


def test_a_killed_worker_is_restarted(engine, tmp_path):
    worker = (
        "import os, pathlib\n"
        "mark = pathlib.Path('mark')\n"
        "if not mark.exists(): mark.touch(); os.kill(os.getpid(), 9)\n"
        "pathlib.Path('done').touch()\n"
    )
    # A worker is not restarted when the servers have ended.
    server = "import pathlib, time\nwhile not pathlib.Path('done').exists(): time.sleep(0.01)\n"
    job_id = submit(engine, tmp_path / "job", make_job(server=server, worker=worker))
    assert end_of(engine, tmp_path / "job", job_id).state == "succeeded"
    assert any("was killed by SIGKILL" in line for line in engine.logs(tmp_path / "job", job_id))


def test_a_failed_job_says_what_has_failed(engine, tmp_path):
    job = make_job(worker="import sys; print('no such slot'); sys.exit(3)")
    job_id = submit(engine, tmp_path / "job", job)
    status = end_of(engine, tmp_path / "job", job_id)
    assert status.state == "failed"
    assert status.detail == "exit status 3; error: worker.0 ended with status 3; logs: logs"
    assert "no such slot" in list(engine.logs(tmp_path / "job", job_id))


def test_a_cancelled_job_leaves_no_process(engine, tmp_path):
    folder = tmp_path / "job"
    job_id = submit(engine, folder, make_job(server=PID, worker=PID))
    logs = [folder / "logs/server.0", folder / "logs/worker.0"]
    wait_until(lambda: all(log.is_file() and numbers_in(log) for log in logs), "both processes")
    assert engine.status(folder, job_id).state == "running"
    engine.cancel(folder, job_id)
    assert engine.status(folder, job_id).state == "cancelled"
    wait_until_gone(*numbers_in(*logs))
    engine.cancel(folder, job_id)  # once more does nothing


def test_a_job_whose_mpirun_was_killed_has_failed(engine, tmp_path):
    folder = tmp_path / "job"
    job_id = submit(engine, folder, make_job(server=PID, worker=PID))
    logs = [folder / "logs/server.0", folder / "logs/worker.0"]
    wait_until(lambda: all(log.is_file() and numbers_in(log) for log in logs), "both processes")
    (process,) = folder.glob("mpi/*/process.json")
    os.killpg(json.loads(process.read_text())["pid"], signal.SIGKILL)
    status = end_of(engine, folder, job_id)
    assert (status.state, "mpirun was killed" in status.detail) == ("failed", True)
    for pid in numbers_in(*logs):
        wait_until(lambda pid=pid: not is_running(pid), "the processes to end with it")


def test_a_folder_can_be_submitted_again(engine, tmp_path):
    folder = tmp_path / "job"
    first = submit(engine, folder, make_job(server="", worker="print('first')"))
    end_of(engine, folder, first)
    tasks = folder / "tasks.json"
    tasks.write_text(tasks.read_text().replace("print('first')", "print('second')"))
    second = engine.submit(folder).job_id
    assert end_of(engine, folder, second).state == "succeeded"
    assert (folder / "logs/worker.0").read_text() == "second\n"
    assert engine.status(folder, first).state == "succeeded"


def test_a_missing_mpirun_is_named(tmp_path):
    engine = MpiEngine(MpiOptions(mpirun="no-such-mpirun"))
    engine.render(make_job(), tmp_path)
    with pytest.raises(UnavailableError, match="no-such-mpirun: not found; install Open MPI"):
        engine.submit(tmp_path)


def test_a_folder_of_another_engine_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="this is not a job for MPI"):
        MpiEngine(MpiOptions()).submit(tmp_path)
    with pytest.raises(ConfigError, match="no job was started here"):
        MpiEngine(MpiOptions()).status(tmp_path, "12345678")
