"""Paths of a job that name outputs and checkpoints are paths or URLs."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from fleetrec.config.job import SaveOptions, WarmStartOptions


def test_a_url_keeps_its_slashes():
    assert SaveOptions(checkpoint_path="s3://bucket/a/b").checkpoint_path == "s3://bucket/a/b"


@pytest.mark.parametrize("given", ["a/b", "a//b/", Path("a/b"), "./a/b"])
def test_a_local_path_is_written_in_one_way(given):
    assert WarmStartOptions(path=given).path == "a/b"


def test_a_file_url_is_a_path():
    assert SaveOptions(step_path="file:///a/b").step_path == "/a/b"


def test_credentials_in_a_url_are_refused_and_not_repeated():
    with pytest.raises(ValidationError) as caught:
        SaveOptions(inference_path="sftp://user:secret@host/x")
    (problem,) = caught.value.errors()
    assert "expected a URL without credentials" in problem["msg"]
    assert "secret" not in problem["msg"]
