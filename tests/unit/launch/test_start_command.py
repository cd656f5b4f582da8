"""``start_cmd``: what runs on the nodes."""

import pytest

from fleetrec.core.errors import ConfigError
from fleetrec.launch.start_command import job_argument, node_command, start_command


def test_the_command_of_paddlerec_starts_fleetrec():
    command = start_command("python -m paddlerec.run -m ./config.yaml")
    assert command.words == ("python", "-m", "fleetrec.run", "-m", "./config.yaml")
    assert command.notices == ("start_cmd: paddlerec.run is read as fleetrec.run",)
    assert job_argument(command) == "./config.yaml"


@pytest.mark.parametrize(
    "line",
    ["cd sub && python a.py", "A=1 python a.py", "python a.py > log", 'echo "$HOME"', "ls *.py"],
)
def test_what_needs_a_shell_gets_one(line):
    command = start_command(line)
    assert command.words is None
    assert node_command(command, python="py")[-3:] == ("sh", "-c", line)


@pytest.mark.parametrize("line", ["python a.py '$x'", 'python a.py "a b"', "run --a=1"])
def test_what_needs_no_shell_gets_none(line):
    assert start_command(line).words is not None


def test_arguments_of_the_submission_reach_the_node():
    command = start_command("fleetrec run -m config.yaml", arguments=["-o", "a.b=c d"])
    assert command.words == ("fleetrec", "run", "-m", "config.yaml", "-o", "a.b=c d")
    with pytest.raises(ConfigError, match="cannot be given --resume"):
        start_command("python mine.py", arguments=["--resume"])


@pytest.mark.parametrize(
    ("line", "job"),
    [
        ("fleetrec train-eval --pipeline_config_path x.config", "x.config"),
        ("python3 -m fleetrec.run --model rank/dnn", "rank/dnn"),
        ("python mine.py -m other", None),
    ],
)
def test_the_job_of_a_command_is_known(line, job):
    assert job_argument(start_command(line)) == job
