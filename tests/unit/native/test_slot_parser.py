"""The native slot-text parser on hand-written lines."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fleetrec._native import SlotParser, SlotTextError, cut_lines


def parse(*lines: bytes, sparse=("click", "1"), dense=(("d", 2),), padding=0):
    return SlotParser(list(sparse), list(dense), padding).parse([b"\n".join(lines)])


def fault(*lines: bytes, **declared) -> SlotTextError:
    with pytest.raises(SlotTextError) as caught:
        parse(*lines, **declared)
    return caught.value


def parse_id(text: str) -> int:
    return parse(b"s:" + text.encode(), sparse=("s",), dense=()).ids.tolist()[0]


def parse_float(text: str) -> np.float32:
    return parse(b"d:" + text.encode(), sparse=(), dense=(("d", 1),)).dense[0][0, 0]


def test_ids_are_feature_major_with_running_offsets():
    parsed = parse(b"click:1 1:7 1:8", b"1:9 click:0")
    assert parsed.num_samples == 2
    assert parsed.ids.tolist() == [1, 0, 7, 8, 9]
    assert parsed.offsets.tolist() == [0, 1, 2, 4, 5]
    assert parsed.ids.dtype == parsed.offsets.dtype == parsed.seen.dtype == np.int64


def test_dense_values_fill_a_row_in_order():
    parsed = parse(b"d:0.5 click:1 d:-2", b"d:1e1 d:.25")
    assert parsed.dense[0].dtype == np.float32
    assert parsed.dense[0].tolist() == [[0.5, -2.0], [10.0, 0.25]]


def test_an_absent_slot_is_padded():
    parsed = parse(b"click:1", padding=-3)
    assert parsed.ids.tolist() == [1, -3]
    assert parsed.dense[0].tolist() == [[-3.0, -3.0]]


def test_seen_counts_samples_sparse_before_dense():
    parsed = parse(b"click:1 1:7 1:8", b"click:0 d:1 d:2", b"")
    assert parsed.seen.tolist() == [2, 1, 1]


def test_an_empty_line_is_a_sample_of_paddings():
    parsed = parse(b"", b" \t\r\v\f ", b"click:1\r", padding=5)
    assert (parsed.num_samples, parsed.num_empty) == (3, 2)
    assert parsed.ids.tolist() == [5, 5, 1, 5, 5, 5]


def test_white_space_at_the_ends_and_double_blanks_are_skipped():
    assert parse(b"\t click:1   1:2 \t\r\n").ids.tolist() == [1, 2]


def test_what_follows_a_second_colon_is_ignored():
    parsed = parse(b"click:1:x:: 1:2: d:1:y d:2")
    assert parsed.ids.tolist() == [1, 2]
    assert parsed.dense[0].tolist() == [[1.0, 2.0]]


def test_undeclared_slots_are_counted_and_their_values_not_checked():
    parsed = parse(b"x:nonsense click:1 yy: x:1\t2", b"\xff:1 \xfe:1")
    assert parsed.undeclared == {"x": 2, "yy": 1, "\ufffd": 2}


def test_a_name_that_starts_like_another_is_another():
    parsed = parse(b"1:5 11:6 1:7 111:8", sparse=("11", "1"), dense=())
    assert parsed.ids.tolist() == [6, 5, 7]
    assert parsed.undeclared == {"111": 1}


@pytest.mark.parametrize("length", [1, 6, 7, 8, 9, 14, 15, 16, 17, 40])
def test_names_of_any_length_are_told_apart(length):
    names = ["a" * length, "a" * (length - 1) + "b", "b" + "a" * (length - 1), "a" * (length + 1)]
    names = list(dict.fromkeys(names))
    line = " ".join(f"{name}:{i}" for i, name in enumerate(names)).encode()
    backwards = " ".join(f"{name}:{i}" for i, name in reversed(list(enumerate(names)))).encode()
    parsed = parse(line, backwards, line, sparse=names, dense=())
    assert parsed.ids.tolist() == [i for i in range(len(names)) for _ in range(3)]


def test_names_may_be_any_text():
    assert parse("größe:3".encode(), sparse=("größe",), dense=()).ids.tolist() == [3]


def test_a_line_s_result_does_not_depend_on_the_lines_before():
    lines = [b"click:1 1:2", b"1:3 click:4", b"1:5 1:6 1:7 click:8", b"x:1 click:9", b"click:1 1:2"]
    together = parse(*lines, dense=())
    alone = [parse(line, dense=()) for line in lines]
    ids = [one.ids[one.offsets[s] : one.offsets[s + 1]] for s in (0, 1) for one in alone]
    assert together.ids.tolist() == np.concatenate(ids).tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("-0", 0),
        ("+7", 7),
        ("0000000000000000000000000000012", 12),
        ("12345678", 12345678),
        ("123456789012345678", 123456789012345678),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", -(2**63)),
        ("-9223372036854775808", -(2**63)),
        ("-09223372036854775808", -(2**63)),
        ("18446744073709551615", -1),
        ("+18446744073709551615", -1),
        ("-1", -1),
    ],
)
def test_an_id_keeps_its_64_bits(text, expected):
    assert parse_id(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("18446744073709551616", "-9223372036854775809", "99999999999999999999"),
        *("184467440737095516150", "-18446744073709551615", "1" * 40),
    ],
)
def test_an_id_out_of_range_is_refused(text):
    with pytest.raises(SlotTextError, match=r"expected an integer from -2\^63 to 2\^64-1, got '"):
        parse_id(text)


@pytest.mark.parametrize("text", ["", "-", "+", "+-1", "1.0", "1_0", "1a", "a", "0x1", "1e3", "٣"])
def test_an_id_that_is_no_integer_is_refused(text):
    with pytest.raises(SlotTextError, match="slot 's' is sparse: expected a decimal integer, got"):
        parse_id(text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "0",
            "-0",
            "+0.0",
            "1.",
            ".5",
            "-.5e1",
            "0.05",
            "0.0066",
            "1e22",
            "1e23",
            "1E-22",
            "1e+5",
        ),
        *(
            "3.4028235e38",
            "3.402823567797336e38",
            "1e-45",
            "7e-46",
            "1e-400",
            "-1e-999999999999999",
        ),
        *(
            "0e999999999999999999999",
            "0.000000000000000000000000000000000000001",
            "9007199254740993",
        ),
        *("123456789012345678901234567890", "0." + "0" * 400 + "1", "1" + "0" * 400 + "e-400"),
        *("16777217", "16777216.999999999", "1.00000005960464477540", "9007199254740993e-10"),
    ],
)
def test_a_dense_value_is_rounded_as_numpy_rounds_it(text):
    assert parse_float(text).tobytes() == np.float32(float(text)).tobytes()


@pytest.mark.parametrize("text", ["1e39", "-1e39", "3.4028235677973366e38", "1e400", "1" * 400])
def test_a_dense_value_beyond_float32_is_refused(text):
    with pytest.raises(SlotTextError, match="slot 'd' is dense: expected a number that float32"):
        parse_float(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "-", "+.", "e5", "1e", "1e+", "1.2.3", "nan", "inf", "-inf", "infinity", "1_0"),
        *("0x1p3", "--1", "1f", "1,5", "٣"),
    ],
)
def test_a_dense_value_that_is_no_finite_decimal_is_refused(text):
    with pytest.raises(SlotTextError, match="slot 'd' is dense: expected a finite decimal number"):
        parse_float(text)


def test_a_fault_says_where_and_what():
    error = fault(b"click:1", b"\t click:0  1:x5 1:y")
    assert (error.segment, error.line, error.column, error.token) == (0, 1, 12, "1:x5")
    assert error.reason == "slot '1' is sparse: expected a decimal integer, got 'x5'"
    assert str(error) == f"segment 0, line 1, column 12: '1:x5': {error.reason}"


def test_a_fault_counts_lines_within_its_segment():
    parser = SlotParser(["s"], [])
    with pytest.raises(SlotTextError) as caught:
        parser.parse([b"s:1\ns:2", b"", b"s:3\n\nbad\n"])
    assert (caught.value.segment, caught.value.line, caught.value.column) == (2, 2, 1)


@pytest.mark.parametrize(
    ("line", "token", "reason"),
    [
        (b"click", "click", "expected slot:value, got a token without ':'"),
        (b"x", "x", "expected slot:value, got a token without ':'"),
        (b":5", ":5", "expected slot:value, got no slot name before ':'"),
        (b":", ":", "expected slot:value, got no slot name before ':'"),
        (b"1:", "1:", "slot '1' is sparse: expected a decimal integer, got nothing"),
        (b"1::5", "1::5", "slot '1' is sparse: expected a decimal integer, got nothing"),
        (b"d:", "d:", "slot 'd' is dense: expected a finite decimal number, got nothing"),
        (b"1:\xff", "1:\ufffd", "slot '1' is sparse: expected a decimal integer, got '\ufffd'"),
    ],
)
def test_each_bad_token_has_its_reason(line, token, reason):
    error = fault(b"click:1 " + line + b" 1:2")
    assert (error.column, error.token, error.reason) == (9, token, reason)


@pytest.mark.parametrize("line", [b"click:5\t2", b"click:5\t1:2 1:1", b"a\tb", b"d:1\td:2"])
def test_a_tab_inside_a_token_is_named(line):
    assert fault(line).reason.endswith("; tokens are separated by blanks, not tabs")


@pytest.mark.parametrize(("line", "got"), [(b"1:1 d:1 1:2", 1), (b"1:2 d:1 d:2 1:3 d:3", 3)])
def test_a_wrong_number_of_dense_values_is_refused(line, got):
    error = fault(b"d:1 d:2", line)
    assert (error.line, error.column, error.token) == (1, 5, "d")
    assert error.reason == f"slot 'd' is dense: expected 2 values in a line, got {got}"


def test_the_first_dense_slot_of_the_line_with_a_wrong_number_is_reported():
    error = fault(b"  c:1 b:1 a:1", sparse=(), dense=(("a", 2), ("b", 2), ("c", 1)))
    assert (error.column, error.token) == (7, "b")


def test_a_bad_token_comes_before_a_wrong_number():
    assert fault(b"d:1 1:x").token == "1:x"


def test_a_long_token_is_cut_to_80_characters():
    error = fault(b"click:" + "é".encode() * 500)
    assert error.token == "click:" + "é" * 74
    assert len(error.reason) < 200


def test_a_fault_survives_pickling():
    error = fault(b"1:x")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is SlotTextError
    assert (str(copy), vars(copy)) == (str(error), vars(error))


@pytest.mark.parametrize(
    ("sparse", "dense", "message"),
    [
        (["a", "a"], [], "declared once, got 'a' twice"),
        (["a"], [("a", 1)], "declared once, got 'a' twice"),
        ([], [("a", 1), ("a", 2)], "declared once, got 'a' twice"),
        (["a", ""], [], "must not be empty, got '' as name 1"),
        ([], [("", 1)], "must not be empty"),
        (["a:b"], [], "must hold no ':', blank or newline, got 'a:b'"),
        (["a b"], [], "must hold no ':', blank or newline"),
        ([], [("a", 0)], "dense slot 'a' must have a width of at least 1, got 0"),
        ([], [("a", -1)], "dense slot 'a' must have a width of at least 1, got -1"),
    ],
)
def test_an_impossible_declaration_is_refused(sparse, dense, message):
    with pytest.raises(ValueError, match=message):
        SlotParser(sparse, dense)


def test_a_width_beyond_all_memory_is_a_memory_error():
    with pytest.raises(MemoryError):
        parse(b"", b"", b"", b"", dense=(("d", 2**62),))


@pytest.mark.parametrize("segments", [[], [b""], [b"", b""]])
def test_no_text_has_no_samples(segments):
    parsed = SlotParser(["s"], [("d", 3)]).parse(segments)
    assert parsed.num_samples == 0
    assert parsed.ids.tolist() == []
    assert parsed.offsets.tolist() == [0]
    assert parsed.dense[0].shape == (0, 3)
    assert parsed.seen.tolist() == [0, 0]


def test_a_parser_without_slots_only_counts():
    parsed = parse(b"a:1 b:2 a:3", b"b:x", sparse=(), dense=())
    assert (parsed.num_samples, parsed.undeclared) == (2, {"a": 2, "b": 2})
    assert parsed.offsets.tolist() == [0]


def test_segments_may_be_any_buffer():
    text = b"junk s:1\ns:22 junk"
    parser = SlotParser(["s"], [])
    segments = [memoryview(text)[5:9], bytearray(text[9:13]), np.frombuffer(b"s:3", np.uint8)]
    assert parser.parse(segments).ids.tolist() == [1, 22, 3]


def test_bytes_behind_a_segment_are_not_read_into_it():
    text = b"s:1234567890 d:1.5555555"
    parser = SlotParser(["s"], [("d", 1)])
    for end in (3, 5, 9):
        assert parser.parse([memoryview(text)[:end]]).ids.tolist() == [int(text[2:end])]
    assert parser.parse([memoryview(text)[:18]]).dense[0].tolist() == [[1.5]]


def test_what_is_no_buffer_is_a_type_error():
    with pytest.raises(TypeError):
        SlotParser(["s"], []).parse(["s:1"])


def test_arrays_outlive_the_parser_and_the_result():
    parsed = parse(b"click:4 1:5 d:1 d:2")
    ids, dense = parsed.ids, parsed.dense[0]
    del parsed
    assert ids.tolist() == [4, 5]
    assert dense.tolist() == [[1.0, 2.0]]
    assert ids.flags.writeable
    assert dense.flags.c_contiguous


def test_threads_may_share_a_parser():
    parser = SlotParser(["s"], [])
    texts = [b"\n".join(b"s:%d x%d:1" % (i * k, k) for i in range(500)) for k in range(16)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda text: parser.parse([text]), texts))
    for k, parsed in enumerate(results):
        assert parsed.ids.tolist() == [i * k for i in range(500)]
        assert parsed.undeclared == {f"x{k}": 500}


@pytest.mark.parametrize(
    ("begin", "max_lines", "expected"),
    [
        *[(0, 1, (2, 1)), (0, 2, (3, 2)), (0, 9, (7, 3)), (2, 1, (3, 1)), (3, 2, (7, 1))],
        *[(0, 0, (0, 0)), (7, 5, (7, 0)), (1, 3, (6, 3))],
    ],
)
def test_cut_lines_ends_behind_the_last_newline_taken(begin, max_lines, expected):
    assert cut_lines(b"a\n\nbb\nc", begin, max_lines) == expected
    assert cut_lines(memoryview(b"a\n\nbb\ncX")[:7], begin, max_lines) == expected


def test_cut_lines_refuses_to_begin_behind_the_end():
    with pytest.raises(ValueError, match="within the text of 1 bytes, got 2"):
        cut_lines(b"a", 2, 1)
