"""Programs behind pipe_command: those that fail, stop early, or would go on for ever."""

import time
from pathlib import Path

import pytest

from fleetrec.core.errors import DataError
from fleetrec.data import program
from fleetrec.data.source import BadRowError
from making_rows import FORMATS, gzipped, open_source

FORM = next(form for form in FORMATS if form.name == "pipe")
pytestmark = pytest.mark.multiprocess


def pipe(tmp_path, command, *, text=b"1 2\n3 4\n", name="part"):
    path = tmp_path / name
    path.write_bytes(text)
    return open_source(
        FORM.dataset(path, pipe_command=command, sparse=("a",), dense=()),
    )


def decode(tmp_path, command, **more):
    source, part = pipe(tmp_path, command, **more)
    return source.decode(list(source.read(part, offset=0, row=0)))


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def num_open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 20
    while is_running(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.01)


def test_a_file_goes_through_the_program(tmp_path):
    block = decode(tmp_path, "awk '{print 1, $1 + $2}'")
    assert block.ids["a"].values.tolist() == [3, 7]


def test_a_compressed_file_is_decompressed_before(tmp_path):
    block = decode(tmp_path, "sed 's/^/2 /'", text=gzipped(b"1 2\n3 4\n"), name="part.gz")
    assert block.ids["a"].values.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo no such column >&2; exit 3", "ended with exit code 3; it said: no such column"),
        ("cat > /dev/null; kill -9 $$", "was ended by signal 9; it said nothing"),
        ("no_such_program_anywhere", "ended with exit code 127; it said: .*not found"),
    ],
)
def test_a_program_that_fails_is_quoted(tmp_path, command, said):
    with pytest.raises(DataError, match=f"part: pipe_command .*{said}") as caught:
        decode(tmp_path, command)
    assert "\n" not in str(caught.value)


def test_garbage_is_named_by_its_line(tmp_path):
    command = "echo 1 5; echo Traceback"
    with pytest.raises(BadRowError, match="line 2 of its output: column 1: 'Traceback'"):
        decode(tmp_path, command)


def test_a_program_need_not_read_its_input(tmp_path):
    text = b"x" * (1 << 20)
    assert decode(tmp_path, "echo 1 5", text=text).ids["a"].values.tolist() == [5]


def test_a_damaged_file_is_told_from_a_failed_program(tmp_path):
    with pytest.raises(DataError, match=r"part\.gz: cannot be read"):
        decode(tmp_path, "cat", text=gzipped(b"1 2\n" * 9999)[:-20], name="part.gz")


def test_a_program_that_closes_its_output_must_end(tmp_path, monkeypatch):
    monkeypatch.setattr(program, "GRACE_S", 0.2)
    with pytest.raises(DataError, match="closed its output but did not end"):
        decode(tmp_path, "echo 1 5; exec >&-; sleep 600")


def test_nothing_is_left_when_reading_stops_early(tmp_path):
    pids = tmp_path / "pids"
    command = f"sleep 600 & echo $! > {pids}; echo $$ >> {pids}; yes 1 5"
    source, part = pipe(tmp_path, command)
    chunks = source.read(part, offset=0, row=0)
    assert next(chunks).num_rows
    chunks.close()
    for pid in map(int, pids.read_text().split()):
        wait_until_gone(pid)


def test_children_that_outlive_a_program_are_ended(tmp_path):
    pids = tmp_path / "pids"
    decode(tmp_path, f"sleep 600 > /dev/null 2>&1 & echo $! > {pids}; echo 1 5")
    wait_until_gone(int(pids.read_text()))


def test_a_program_that_ignores_the_request_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(program, "GRACE_S", 0.2)
    pids = tmp_path / "pids"
    source, part = pipe(tmp_path, f"trap '' TERM; echo $$ > {pids}; yes 1 5")
    chunks = source.read(part, offset=0, row=0)
    next(chunks)
    chunks.close()
    wait_until_gone(int(pids.read_text()))


def test_a_program_that_prints_less_than_before_is_noticed(tmp_path):
    source, part = pipe(tmp_path, "echo 1 5")
    with pytest.raises(DataError, match="printed 4 bytes, 96 fewer than before"):
        list(source.read(part, offset=100, row=25))


def test_no_thread_or_file_is_left(tmp_path):
    before = num_open_files()
    for _ in range(3):
        decode(tmp_path, "echo 1 5")
    assert num_open_files() == before
