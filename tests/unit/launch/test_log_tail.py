"""The end of a log, whatever a program has written."""

from fleetrec.launch.log_tail import LINE_CHARACTERS, TAIL_BYTES, log_tail


def test_the_last_lines_are_shown_with_an_unfinished_one(tmp_path):
    log = tmp_path / "log"
    log.write_text("".join(f"line {i}\n" for i in range(100)) + "unfinished")
    assert log_tail(log, num_lines=3) == ["line 98", "line 99", "unfinished"]


def test_an_empty_log_has_no_lines(tmp_path):
    (tmp_path / "log").touch()
    assert log_tail(tmp_path / "log") == []


def test_a_large_log_is_read_from_its_end_and_half_a_line_left_out(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"x" * 100 + b"\n" + b"short\n" * TAIL_BYTES)
    lines = log_tail(log, num_lines=10**6)
    assert set(lines) == {"short"}
    assert len(lines) == TAIL_BYTES // len("short\n")


def test_one_endless_line_is_cut(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"\xff" + b"y" * (1 << 20))
    (line,) = log_tail(log)
    assert line.startswith("y" * LINE_CHARACTERS + "... (")


def test_bytes_that_are_no_text_do_no_harm(tmp_path):
    (tmp_path / "log").write_bytes(b"odd \xe9\n")
    assert log_tail(tmp_path / "log") == ["odd \N{REPLACEMENT CHARACTER}"]
