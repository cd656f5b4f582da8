"""The image for clusters: its Dockerfile."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


def test_the_dockerfile_is_clean():
    program = Path(sys.executable).with_name("hadolint")
    if not program.is_file():
        pytest.skip("hadolint is not installed: make test-slow installs it")
    done = subprocess.run(
        [program, ROOT / "Dockerfile"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_the_dockerfile_copies_is_there_and_not_ignored():
    text = (ROOT / "Dockerfile").read_text()
    copied = [
        name
        for names in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.M)
        for name in names.split()
    ]
    sent = [
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    ]
    assert sorted(copied) == sorted(sent)
    assert all((ROOT / name).exists() for name in copied)
