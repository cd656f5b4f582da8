"""Fixtures that tests of several packages share."""

import uuid

import pytest

from fleetrec.core import storage


@pytest.fixture(params=["local", "memory"])
def place(request, tmp_path):
    """An empty folder that is not there yet."""
    if request.param == "local":
        yield str(tmp_path / "place")
        return
    name = uuid.uuid4().hex
    yield f"memory://{name}/place"
    storage.delete(f"memory://{name}")
