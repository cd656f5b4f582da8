"""The state of a job by what Slurm's commands print; stand-ins for them print recorded answers."""

import pytest

from fleetrec.config.cluster.slurm import SlurmOptions
from fleetrec.core.errors import ConfigError, UnavailableError
from fleetrec.launch.job_spec import JobSpec, RoleSpec
from fleetrec.launch.slurm import SlurmEngine
from multiprocess.standins import install

UNKNOWN = "#!/bin/sh\necho 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1\n"
PAST = (
    "JobId=7 JobName=t UserId=root(0) Priority=1 JobState={state} Reason={reason} Dependency=(null)"
)


def printing(*lines):
    return "\n".join(["#!/bin/sh", "cat <<'END'", *lines, "END", ""])


@pytest.fixture
def engine():
    return SlurmEngine(SlurmOptions())


@pytest.mark.parametrize(
    ("lines", "state", "detail"),
    [
        (["PENDING Resources"], "pending", "PENDING (Resources)"),
        (["RUNNING None"], "running", "RUNNING"),
        (["COMPLETING None"], "running", "COMPLETING"),
        (["PENDING Resources", "RUNNING None"], "running", "RUNNING"),  # of two components
        (["FAILED NonZeroExitCode"], "failed", "FAILED (NonZeroExitCode)"),
        (["NODE_FAIL None"], "failed", "NODE_FAIL"),
    ],
)
def test_squeue_knows_jobs_that_have_not_ended(engine, tmp_path, monkeypatch, lines, state, detail):
    install(tmp_path / "bin", monkeypatch, squeue=printing(*lines), scontrol=UNKNOWN)
    status = engine.status(tmp_path, "7")
    assert (status.state, status.detail) == (state, detail)


@pytest.mark.parametrize(
    ("slurm", "reason", "state"),
    [
        ("COMPLETED", "None", "succeeded"),
        ("CANCELLED", "None", "cancelled"),
        ("TIMEOUT", "TimeLimit", "failed"),
        ("OUT_OF_MEMORY", "OutOfMemory", "failed"),
    ],
)
def test_scontrol_knows_jobs_that_have_just_ended(
    engine, tmp_path, monkeypatch, slurm, reason, state
):
    answer = printing(PAST.format(state=slurm, reason=reason))
    install(tmp_path / "bin", monkeypatch, squeue=UNKNOWN, scontrol=answer)
    assert engine.status(tmp_path, "7").state == state


@pytest.mark.parametrize(
    ("line", "state"), [("CANCELLED by 0|0:0", "cancelled"), ("FAILED|2:0", "failed")]
)
def test_sacct_knows_older_jobs(engine, tmp_path, monkeypatch, line, state):
    answers = {"squeue": UNKNOWN, "scontrol": UNKNOWN, "sacct": printing(line)}
    install(tmp_path / "bin", monkeypatch, **answers)
    assert engine.status(tmp_path, "7").state == state


def test_the_folder_knows_what_slurm_has_forgotten(engine, tmp_path, monkeypatch):
    install(tmp_path / "bin", monkeypatch, squeue=UNKNOWN, scontrol=UNKNOWN, sacct=UNKNOWN)
    assert engine.status(tmp_path, "7").state == "unknown"
    (tmp_path / "logs").mkdir()
    for number, state in ((0, "succeeded"), (2, "failed")):
        (tmp_path / "logs/slurm-7.exit").write_text(f"{number}\n")
        assert engine.status(tmp_path, "7").state == state


def test_a_failure_is_explained_by_the_last_error(engine, tmp_path, monkeypatch):
    answer = printing("FAILED NonZeroExitCode")
    install(tmp_path / "bin", monkeypatch, squeue=answer, scontrol=UNKNOWN)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/slurm-7.out").write_text("error: worker.1 was killed\nsrun: error: x\n")
    status = engine.status(tmp_path, "7")
    assert status.detail == "FAILED (NonZeroExitCode); error: worker.1 was killed"


def make_folder(engine, folder):
    worker = RoleSpec(name="worker", replicas=1, command=("true",))
    engine.render(JobSpec(name="test", roles=(worker,)), folder)
    return folder


def test_a_job_is_submitted_from_its_folder(engine, tmp_path, monkeypatch):
    sbatch = '#!/bin/sh\necho "$@" >given; pwd >>given; echo "9;cluster"\n'
    install(tmp_path / "bin", monkeypatch, sbatch=sbatch)
    folder = make_folder(engine, tmp_path / "job")
    job = engine.submit(folder)
    assert job.job_id == "9"
    assert "squeue -j 9" in job.follow
    assert (folder / "given").read_text().splitlines() == ["--parsable sbatch.sh", str(folder)]


def test_a_refusal_of_sbatch_is_shown(engine, tmp_path, monkeypatch):
    sbatch = "#!/bin/sh\necho 'sbatch: error: invalid partition specified: x' >&2; exit 1\n"
    install(tmp_path / "bin", monkeypatch, sbatch=sbatch)
    with pytest.raises(UnavailableError, match="invalid partition specified: x"):
        engine.submit(make_folder(engine, tmp_path / "job"))


def test_missing_commands_are_named(engine, tmp_path, monkeypatch):
    folder = make_folder(engine, tmp_path / "job")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="sbatch: not found"):
        engine.submit(folder)
    with pytest.raises(UnavailableError, match="squeue: not found"):
        engine.status(folder, "7")
    with pytest.raises(UnavailableError, match="scancel: not found"):
        engine.cancel(folder, "7")


def test_a_folder_of_another_engine_is_refused(engine, tmp_path):
    with pytest.raises(ConfigError, match="this is not a job for Slurm"):
        engine.submit(tmp_path)


def test_an_ended_job_can_be_cancelled_and_an_unknown_one_cannot(engine, tmp_path, monkeypatch):
    ended = "#!/bin/sh\necho 'Job/step already completing or completed' >&2; exit 1\n"
    install(tmp_path / "a", monkeypatch, scancel=ended)
    engine.cancel(tmp_path, "7")
    install(tmp_path / "b", monkeypatch, scancel=UNKNOWN)
    with pytest.raises(UnavailableError, match="Invalid job id"):
        engine.cancel(tmp_path, "7")
