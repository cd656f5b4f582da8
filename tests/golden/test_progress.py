"""How the progress of a run is written, in manifests and with the steps that servers store."""

import json

from fleetrec.core.cursor import Cursor
from fleetrec.core.progress import Progress

WITHIN = Progress(
    pass_index=3,
    phase=1,
    batch=7,
    step=42,
    cursor=Cursor(
        file=2,
        offset=4096,
        row=120,
        samples=448,
        skip=5,
        readers=(Cursor(file=1, offset=9, row=1, samples=16), Cursor()),
        turn=1,
    ),
)
WITHIN_BYTES = (
    b'{"pass_index": 3, "phase": 1, "batch": 7, "step": 42, "cursor": '
    b'{"file": 2, "offset": 4096, "row": 120, "samples": 448, "skip": 5, "readers": '
    b'[{"file": 1, "offset": 9, "row": 1, "samples": 16, "skip": 0, "readers": [], "turn": 0}, '
    b'{"file": 0, "offset": 0, "row": 0, "samples": 0, "skip": 0, "readers": [], "turn": 0}], '
    b'"turn": 1}}'
)
BEGIN_BYTES = b'{"pass_index": 0, "phase": 0, "batch": 0, "step": 0, "cursor": null}'
OLDER_BYTES = b'{"epoch": 3, "phase": 0, "batch": 0, "step": 42, "cursor": null}'


def test_progress_within_a_pass():
    assert WITHIN.to_bytes() == WITHIN_BYTES
    assert Progress.from_bytes(WITHIN_BYTES) == WITHIN


def test_progress_at_the_beginning():
    assert Progress().to_bytes() == BEGIN_BYTES
    assert Progress.from_bytes(BEGIN_BYTES) == Progress()


def test_older_progress_called_a_pass_an_epoch():
    assert Progress.from_bytes(OLDER_BYTES) == Progress(pass_index=3, step=42)


def test_a_cursor_in_a_manifest():
    plain = json.loads(WITHIN_BYTES)["cursor"]
    assert WITHIN.cursor is not None
    assert json.loads(json.dumps(WITHIN.cursor.to_dict())) == plain
    assert Cursor.from_dict(plain) == WITHIN.cursor
