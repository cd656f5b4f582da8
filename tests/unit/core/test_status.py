"""The status that a process reports to its launcher."""

import pytest

from fleetrec.core.status import Status, read_status, write_status


def test_the_last_status_is_read_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "worker.0"
    for batch in (1, 2):
        write_status(path, Status(epoch=3, batch=batch, loss=0.5))
    assert read_status(path) == Status(epoch=3, batch=2, loss=0.5)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", [None, "", "{", "[1]", '{"unknown": 1}'])
def test_a_status_that_cannot_be_read_is_empty(tmp_path, content):
    if content is not None:
        (tmp_path / "status").write_text(content)
    assert read_status(tmp_path / "status") == Status()
