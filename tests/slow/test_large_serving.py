"""A serving model of a large table is made in little memory."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fleetrec.export.predictor import Predictor

pytestmark = pytest.mark.slow

NUM_ROWS = 2_000_000
CHILD = "slow.large_serving_child"
TESTS = Path(__file__).parents[1]


def run(*arguments):
    """Run a step in a process of its own; returns by how many bytes its memory grew."""
    done = subprocess.run(
        [sys.executable, "-m", CHILD, *map(str, arguments)],
        cwd=TESTS,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])


def test_a_base_and_a_delta_of_a_large_table_are_made_in_little_memory(tmp_path):
    run("save", tmp_path)
    grown = run("publish", tmp_path)
    assert grown < 80e6  # the rows alone are 256 MB; files are of 16 MiB
    predictor = Predictor(tmp_path / "base")
    assert predictor.num_rows == NUM_ROWS
    predictor.apply(tmp_path / "delta")
    assert predictor.num_rows == NUM_ROWS - 1000
    found = predictor.predict({"item": np.array([[5000], [7]]), "price": np.zeros((2, 2))})
    assert np.isfinite(found["logit"]).all()


def test_a_large_table_is_exported_from_a_delta_and_its_base_in_little_memory(tmp_path):
    run("save", tmp_path)
    grown = run("export", tmp_path)
    assert grown < 80e6  # the rows alone are 256 MB
    predictor = Predictor(tmp_path / "exported")
    assert predictor.num_rows == NUM_ROWS - 1000
    found = predictor.predict({"item": np.array([[5000], [7]]), "price": np.zeros((2, 2))})
    assert np.isfinite(found["logit"]).all()
