"""The status file of a server."""

from fleetrec.core.status import Status, read_status
from fleetrec.server.status_writer import StatusWriter


def test_calls_per_second_are_counted_between_two_statuses(tmp_path):
    now, calls = iter([0.0, 0.5, 2.0, 4.0]), iter([3, 10, 30])
    path = tmp_path / "status"
    status = StatusWriter(
        path, num_calls=lambda: next(calls), num_pending=lambda: 2, clock=lambda: next(now)
    )
    status.write_if_due()
    assert not path.exists()  # not due yet
    status.write_if_due()
    assert read_status(path) == Status(per_s=5.0, queue=2)
    status.write_if_due()
    assert read_status(path) == Status(per_s=10.0, queue=2)
