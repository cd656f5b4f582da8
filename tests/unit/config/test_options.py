"""Paths of a job that name outputs and checkpoints are paths or URLs."""

from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from fleetrec.config.options import Url

URL = TypeAdapter(Url)


def test_a_url_keeps_its_slashes():
    assert URL.validate_python("s3://bucket/a/b") == "s3://bucket/a/b"


@pytest.mark.parametrize("given", ["a/b", "a//b/", Path("a/b"), "./a/b"])
def test_a_local_path_is_written_in_one_way(given):
    assert URL.validate_python(given) == "a/b"


def test_a_file_url_is_a_path():
    assert URL.validate_python("file:///a/b") == "/a/b"


def test_credentials_in_a_url_are_refused_and_not_repeated():
    with pytest.raises(ValidationError) as caught:
        URL.validate_python("sftp://user:secret@host/x")
    (problem,) = caught.value.errors()
    assert "expected a URL without credentials" in problem["msg"]
    assert "secret" not in problem["msg"]
