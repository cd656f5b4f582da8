"""Jobs for PaddleCloud: the folder, what is printed, what the client gets."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fleetrec.cli.run import RunRequest, run_command
from fleetrec.cli.submit import submit_again, submit_command
from fleetrec.cli.submit_plan import SubmitRequest
from fleetrec.core.errors import UnavailableError
from making_cluster import (
    SECRETS,
    add_client,
    make_backend,
    make_workspace,
    readable_by_others,
    write_yaml,
)

SHELLCHECK = shutil.which("shellcheck") or Path(sys.executable).with_name("shellcheck")
COMMON = [
    "job --ak AK-4711 --sk SK-0815 train",
    "--job-name PaddleRec_CTR",
    "--group-name ctr",
    "--job-conf config.ini",
    "--start-cmd python -m fleetrec.run -m ./config.yaml",
]
K8S = {"k8s_trainers": 2, "k8s-cpu-cores": 4}
CASES = {
    "mpi": (
        {"fleet_mode": "ps"},
        make_backend("mpi", submit={"nodes": 2}),
        ("cpu", "mpi"),
        ["--mpi-priority high", "--mpi-nodes 2", "--is-standalone 0", "--permission group"],
    ),
    "k8s collective": (
        {"fleet_mode": "collective", "device": "gpu"},
        make_backend("k8s", submit={**K8S, "k8s_gpu_card": 1}),
        ("gpu", "k8s"),
        [
            *("--k8s-priority high", "--k8s-trainers 2", "--k8s-cpu-cores 4"),
            *("--k8s-gpu-cards 1", "--is-standalone 0", "--distribute-job-type NCCL2"),
        ],
    ),
    "k8s ps": (
        {"fleet_mode": "ps"},
        make_backend("k8s", submit={**K8S, "k8s_ps_num": 2, "k8s_ps_cores": 3}),
        ("cpu", "k8s"),
        [
            *("--k8s-priority high", "--k8s-trainers 2", "--k8s-cpu-cores 4"),
            *("--k8s-ps-num 2", "--k8s-ps-cores 3", "--is-standalone 0"),
            "--distribute-job-type PSERVER",
        ],
    ),
}


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    folder = make_workspace(tmp_path / "dnn")
    monkeypatch.chdir(folder)
    return folder


def submit(folder: Path, backend, **changes) -> Path:
    write_yaml(folder / "backend.yaml", backend)
    submit_command(SubmitRequest(model="config.yaml", backend_file=Path("backend.yaml"), **changes))
    return job_folder(folder)


def job_folder(folder: Path) -> Path:
    (found,) = folder.glob("*_20*")
    return found


def read_ini(path: Path, *names: str) -> list[str]:
    """Values as a shell reads them."""
    shown = "; ".join(f'printf "%s\\n" "${name}"' for name in names)
    done = subprocess.run(
        ["sh", "-c", f". {path}; {shown}"], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("case", CASES)
def test_a_job_is_submitted_as_paddlerec_does_it(case, tmp_path, monkeypatch, capsys):
    job, backend, (device, cluster), arguments = CASES[case]
    folder = make_workspace(tmp_path / "dnn", **job)
    write_yaml(folder / "backend.yaml", backend)
    monkeypatch.chdir(folder)
    given = add_client(tmp_path / "bin", monkeypatch)
    run_command(RunRequest(model="config.yaml"), backend=Path("backend.yaml"))
    made = job_folder(folder)
    assert re.fullmatch(r"PaddleRec_CTR_\d{12}", made.name)
    names = {path.name for path in made.iterdir()}
    listed = {"backend.yaml", "config.yaml", "before_hook.sh", "config.ini", "end_hook.sh"}
    assert names == {*listed, "job.sh", "model.py", "job.json", ".paddlecloud"}
    lines = capsys.readouterr().out.splitlines()
    first = lines.index(f"The task submission folder is generated at {made}")
    assert lines[first + 1 : first + 15] == [
        "before_submit",
        f"gen {device} before_hook.sh",
        f"gen {cluster}_config.ini",
        f"gen {cluster}_job.sh",
        "gen end_hook.sh",
        "Start checking your job configuration, please be patient.",
        "Congratulations! Job configuration check passed!",
        "Congratulations! The new job is ready for training.",
        "{",
        '    "groupName": "g",',
        '    "jobId": "job-1a2b3c",',
        '    "userId": "u"',
        "}",
        "end submit",
    ]
    called = " ".join(given.read_text().splitlines())
    for words in (*COMMON, *arguments, "./backend.yaml", "./model.py", "--json"):
        assert words in called
    scripts = [made / name for name in ("before_hook.sh", "job.sh", "end_hook.sh")]
    subprocess.run([SHELLCHECK, *scripts], check=True, timeout=60)
    assert read_ini(made / "config.ini", "PADDLE_PADDLEREC_ROLE", "PADDLEREC_CLUSTER_TYPE") == [
        "WORKER",
        cluster.upper(),
    ]


def test_values_reach_the_nodes_and_the_client_as_they_were_written(
    workspace, tmp_path, monkeypatch
):
    given = add_client(tmp_path / "bin", monkeypatch)
    odd = "a #b&c 'd' \"e\" $f \\g"
    backend = make_backend(
        "mpi", {"fs_ugi": f"{odd},x", "output_path": odd}, {"group": odd, "ak": odd}
    )
    backend["submit"]["start_cmd"] = (
        f"python -m paddlerec.run -m ./config.yaml && echo {shlex.quote(odd)}"
    )
    made = submit(workspace, backend)
    assert read_ini(made / "config.ini", "fs_ugi", "output_path") == [f"{odd},x", odd]
    arguments = given.read_text().splitlines()
    assert arguments[arguments.index("--group-name") + 1] == odd
    assert arguments[arguments.index("--ak") + 1] == odd
    assert arguments[arguments.index("--start-cmd") + 1] == (
        f"python -m fleetrec.run -m ./config.yaml && echo {shlex.quote(odd)}"
    )
    subprocess.run([SHELLCHECK, made / "job.sh"], check=True, timeout=60)


def test_flags_follow_the_largest_number_of_threads(workspace):
    backend = make_backend("mpi", {"communicator": {"FLAGS_communicator_fake_rpc": 1}})
    made = submit(workspace, backend, dry_run=True, overrides=["phase.phase1.thread_num=6"])
    names = ["CPU_NUM", "FLAGS_communicator_send_queue_size", "FLAGS_communicator_fake_rpc"]
    assert read_ini(made / "config.ini", *names) == ["6", "6", "1"]
    assert "-o phase.phase1.thread_num=6" in (made / "job.sh").read_text()


def test_without_the_client_the_folder_can_be_submitted_later(workspace, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with pytest.raises(UnavailableError, match=r"not on PATH.*cd .* && sh job.sh"):
        submit(workspace, make_backend("mpi"))
    made = job_folder(workspace)
    given = add_client(tmp_path / "bin", monkeypatch)
    subprocess.run(["sh", made / "job.sh"], check=True, timeout=60, capture_output=True)
    assert "./config.yaml" in given.read_text().splitlines()
    given.unlink()
    submit_again(made, dry_run=False)
    assert "./config.yaml" in given.read_text().splitlines()


def test_a_client_that_fails_is_reported_without_secrets(workspace, tmp_path, monkeypatch):
    add_client(tmp_path / "bin", monkeypatch)
    (tmp_path / "bin/paddlecloud").write_text('#!/bin/sh\necho "no quota for $3 $5" >&2\nexit 3\n')
    with pytest.raises(UnavailableError) as failure:
        submit(workspace, make_backend("mpi"))
    assert "paddlecloud ended with status 3: no quota for *** ***" in str(failure.value)


def test_secrets_are_in_private_files_only(workspace, capsys):
    shutil.copy(workspace / "model.py", workspace / "reader.py")
    with (workspace / "reader.py").open("a") as stream:
        stream.write(f"# {SECRETS['ak']}\n")
    submit(workspace, make_backend("mpi"), dry_run=True)
    made = job_folder(workspace)
    shown = capsys.readouterr()
    for secret in SECRETS.values():
        assert secret not in shown.out + shown.err
        assert not [p for p, text in readable_by_others(made).items() if secret.encode() in text]
        assert [p for p in made.iterdir() if secret.encode() in p.read_bytes()]


def test_secrets_may_be_in_the_environment(workspace, monkeypatch):
    for key, name in (("ak", "FLEETREC_AK"), ("sk", "FLEETREC_SK"), ("fs_ugi", "FLEETREC_FS_UGI")):
        monkeypatch.setenv(name, SECRETS[key])
    backend = make_backend("mpi", {"fs_ugi": ""}, {"ak": "", "sk": ""})
    made = submit(workspace, backend, dry_run=True)
    assert SECRETS["sk"] in (made / ".paddlecloud").read_text()
    assert read_ini(made / "config.ini", "fs_ugi") == [SECRETS["fs_ugi"]]
    assert SECRETS["sk"] not in (made / "backend.yaml").read_text()


def test_hooks_install_a_package_of_the_job_folder(workspace):
    (workspace / "fleetrec-1.0-py3-none-any.whl").write_bytes(b"")
    made = submit(workspace, make_backend("mpi", submit={"files": "./*.py ./*.whl"}), dry_run=True)
    assert "pip install ./fleetrec-1.0-py3-none-any.whl\n" in (made / "before_hook.sh").read_text()


def test_the_single_trainer_of_a_cluster_is_a_job_of_one_process(workspace):
    config = (workspace / "config.yaml").read_text()
    (workspace / "config.yaml").write_text(config.replace("cluster_train", "train"))
    made = submit(workspace, make_backend("k8s", submit={"k8s_trainers": 1}), dry_run=True)
    assert "--is-standalone 1" in (made / "job.sh").read_text()
