"""Jobs for MPI and Slurm: what is checked before a job folder is made, and what is in it."""

import stat

import pytest

from fleetrec.cli.submit import submit_command
from fleetrec.cli.submit_plan import SubmitRequest
from fleetrec.core.errors import ConfigError
from making import write_job


@pytest.fixture
def submit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLEETREC_TOKEN", "hush-hush")

    def render(backend, section, *, mode="ps_cluster", **keys):
        """Return the job folder."""
        written = {"backend": backend, backend.lower(): section, "submit": {"files": "", **keys}}
        path = write_job(written, tmp_path / "backend.yaml")
        request = SubmitRequest(
            model="rank/dnn", backend_file=path, overrides=[f"mode={mode}"], dry_run=True
        )
        submit_command(request)
        (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
        return folder

    return render


@pytest.mark.parametrize(("backend", "script"), [("MPI", "mpirun.sh"), ("Slurm", "sbatch.sh")])
def test_a_job_folder_has_a_script_and_no_secret_that_others_can_read(submit, backend, script):
    folder = submit(backend, {}, workers=2, servers=1)
    assert (folder / script).stat().st_mode & stat.S_IXUSR
    files = [path for path in folder.rglob("*") if path.is_file()]
    holding = [path for path in files if "hush-hush" in path.read_text()]
    assert [path.name for path in holding] == ["tasks.secrets.json"]
    assert stat.S_IMODE(holding[0].stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("backend", "section", "mode", "said"),
    [
        ("MPI", {"hosts": ["a:1", "b:1"]}, "ps_cluster", "3 workers, but its hosts have 2 slots"),
        ("MPI", {"hostfile": "nowhere"}, "ps_cluster", "hostfile nowhere: cannot be read"),
        ("MPI", {"hosts": "a;b"}, "ps_cluster", "hosts: expected name or name:slots, got 'a;b'"),
        ("MPI", {"hosts": "a", "hostfile": "b"}, "ps_cluster", "hosts or hostfile, got both"),
        ("MPI", {"hostz": "a"}, "ps_cluster", "hostz: unknown key; did you mean 'hosts'"),
        ("Slurm", {"nodes": 2}, "collective_cluster", "3 ranks cannot be divided evenly among 2"),
        ("Slurm", {"share_nodes": True, "nodes": 4}, "ps_cluster", "4 nodes are more than"),
    ],
)
def test_a_job_that_the_engine_refuses_leaves_nothing_behind(
    submit, tmp_path, backend, section, mode, said
):
    with pytest.raises(ConfigError, match=said):
        submit(backend, section, mode=mode, workers=3)
    assert [path.name for path in tmp_path.iterdir()] == ["backend.yaml"]
