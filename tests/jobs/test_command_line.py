"""What a person at a terminal types and sees."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from making import make_data, make_job, write_job

pytestmark = pytest.mark.multiprocess


def fleetrec(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fleetrec", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_five_mistakes_give_five_lines(tmp_path):
    job = make_job(make_data(tmp_path / "data", num_samples=10))
    job["mode"] = "trainn"
    job["runner"][0]["epoch"] = 3
    job["runner"][0]["device"] = "tpu"
    job["phase"][0]["dataset_name"] = "date"
    job["hyper_parameters"]["fc_size"] = [1]
    config = write_job(job, tmp_path / "config.yaml")
    done = fleetrec(tmp_path, "run", "-m", "config.yaml")
    assert done.returncode == 2
    assert done.stdout == ""
    lines = [line.partition(": ") for line in done.stderr.splitlines()]
    numbers = {text: number for number, text in enumerate(config.read_text().splitlines(), 1)}

    def line_of(start: str) -> str:
        return next(f"config.yaml:{n}" for text, n in numbers.items() if text.startswith(start))

    assert [(where, what) for where, _, what in lines] == [
        (line_of("mode"), "mode: nothing is called 'trainn'; did you mean 'train'?"),
        (
            line_of("  epoch: "),
            "runner.train.epoch: unknown key; did you mean 'epochs'?",
        ),
        (
            line_of("  device"),
            "runner.train.device: expected 'cpu' or 'gpu', got 'tpu'; did you mean 'gpu'?",
        ),
        (
            line_of("  dataset_name: date"),
            "phase.learn.dataset_name: nothing is called 'date'; did you mean 'data'?",
        ),
        (
            line_of("  fc_size:"),
            "hyper_parameters.fc_size: unknown key; did you mean 'fc_sizes'?",
        ),
    ]


def test_a_failure_while_running_is_one_line_and_exit_1(tmp_path):
    job = make_job(make_data(tmp_path / "data", num_samples=10))
    config = write_job(job, tmp_path / "config.yaml")
    (tmp_path / "data/part-0").write_text("click:1 nonsense\n")
    done = fleetrec(tmp_path, "run", "-m", str(config))
    assert done.returncode == 1
    assert done.stderr.endswith(
        "part-0:1: column 9: 'nonsense': expected slot:value, got a token without ':'\n"
    )
    assert "Traceback" not in done.stdout + done.stderr


def test_a_path_that_cannot_be_written_is_one_line_and_exit_1(tmp_path):
    write_job(make_job(make_data(tmp_path / "data", num_samples=10)), tmp_path / "config.yaml")
    (tmp_path / "taken").touch()
    done = fleetrec(tmp_path, "run", "-m", "config.yaml", "--log-dir", "taken")
    assert done.returncode == 1
    assert done.stderr.startswith("error: [Errno 20] Not a directory: 'taken/")
    assert "Traceback" not in done.stderr


def test_check_says_what_would_run_and_what_is_odd(tmp_path):
    job = make_job(make_data(tmp_path / "data", num_samples=10))
    job["dataset"][0]["dense_slots"] = "dense_var:2"
    write_job(job, tmp_path / "config.yaml")
    done = fleetrec(tmp_path, "check", "config.yaml")
    assert done.returncode == 0
    assert "none of 10 samples has (they are all padding): dense_var" in done.stdout
    assert "runner train: train, cpu, 2 epochs, phases learn" in done.stdout
    assert not (tmp_path / "ckpt").exists()


def test_models_are_listed(tmp_path):
    done = fleetrec(tmp_path, "models")
    assert re.search(r"^rank/dnn +DNN: ", done.stdout, re.MULTILINE)
    shown = fleetrec(tmp_path, "models", "show", "rank/deepfm").stdout
    assert "IJCAI 2017" in shown
    assert re.search(
        r"^  fc_sizes +widths of the hidden layers \(\[400, 400, 400\]\)$", shown, re.M
    )
    assert "dense parameters: 462,001" in shown
    listed = json.loads(fleetrec(tmp_path, "models", "--json").stdout)
    assert {"name", "module", "summary"} == set(listed[0])
    assert "fleetrec.models.rank.dnn" in {model["module"] for model in listed}


def test_a_new_workspace_runs_at_once(tmp_path):
    made = fleetrec(tmp_path, "new", "my_model", "--from", "rank/dnn")
    assert made.returncode == 0
    options = ("-o", "runner.single_cpu_train.epochs=1")
    done = fleetrec(tmp_path, "run", "-m", "my_model", *options)
    assert done.returncode == 0, done.stderr
    assert "Infer phase_infer of epoch 0 done" in done.stdout
    assert (tmp_path / "logs/my_model.single_cpu_train/report.html").is_file()


def test_a_new_workspace_overwrites_nothing(tmp_path):
    (tmp_path / "mine").mkdir()
    done = fleetrec(tmp_path, "new", "mine")
    assert (done.returncode, done.stderr) == (2, "mine: exists already; choose another name\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "-m", "nowhere.yaml"), "-m nowhere.yaml: no such file, folder or model"),
        (("run", "-m", "rank/dmn"), "did you mean 'rank/dnn'?"),
        (("run", "-m", "fleetrec.models.rank.dn"), "did you mean 'fleetrec.models.rank.dnn'?"),
        (("run", "-m", "rank/dnn", "-b", "backend.yaml"), "-b backend.yaml: no such file"),
        (("run", "-m", "rank/dnn", "-b", "list.yaml"), "-b list.yaml: expected a mapping with"),
        (("run", "-m", "rank/dnn", "-b", "broken.yaml"), "broken.yaml:1: "),
        (("run", "-m", "rank/dnn", "-o", "mode=[]"), "mode: expected at least 1 entry, got []"),
        (("run", "-m", "rank/dnn", "-o", "epochs"), "-o epochs: expected key=value"),
        (("new", "x", "--from", "rank/dmn"), "did you mean 'rank/dnn'?"),
    ],
)
def test_what_is_typed_wrong_is_answered(tmp_path, arguments, message):
    (tmp_path / "list.yaml").write_text("- backend: mpi\n")
    (tmp_path / "broken.yaml").write_text("backend: {")
    done = fleetrec(tmp_path, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


VERBS = (
    "run",
    "check",
    "new",
    "models",
    "models list",
    "models show",
    "table stats",
    "table get",
    "table dump",
    "table diff",
    "launch-ps",
)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(tmp_path, verb):
    done = fleetrec(tmp_path, *verb.split(), "--help")
    assert done.returncode == 0
    assert "Example: fleetrec" in done.stdout


def test_modules_are_verbs(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "fleetrec.run", "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "-m" in done.stdout
