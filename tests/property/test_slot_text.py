"""Random slot text parses equally in the native parser and in its slow twin."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetrec._native import SlotParser, SlotTextError, cut_lines
from reference import slot_text
from reference.slot_text import ReferenceParser, TwinTextError

SPARSE = ["click", "1", "11", "a_name_of_17_bytes", "größe"]
DENSE = [("d", 1), ("dense_feature", 3)]

digits = st.text("0123456789", min_size=1, max_size=24).map(str.encode)
sign = st.sampled_from([b"", b"", b"", b"-", b"+"])
integer = st.builds(lambda s, d: s + d, sign, digits) | st.integers(-(2**63), 2**64 - 1).map(
    lambda number: b"%d" % number
)
exponent = st.builds(lambda e, s, d: e + s + d[:3], st.sampled_from([b"e", b"E"]), sign, digits)
decimal = (
    st.builds(
        lambda s, whole, point, part, e: s + whole + point + part + e,
        sign,
        digits | st.just(b""),
        st.sampled_from([b"", b"."]),
        digits | st.just(b""),
        exponent | st.just(b""),
    )
    | st.floats(width=32).map(lambda number: repr(number).encode())
    | st.floats(allow_nan=False, allow_infinity=False).map(lambda number: repr(number).encode())
)
short_decimal = st.floats(-99, 99).map(lambda number: b"%.4g" % number)
good_id = st.integers(-(2**63), 2**64 - 1).map(lambda number: b"%d" % number)
tail = st.sampled_from([b"", b"", b"", b":", b":x", b":1:2"])
spaces = st.sampled_from([b"", b"", b" ", b"\t", b"\r", b" \v\f "])
garbage = st.binary(max_size=12) | st.text("01e.:-+ \t\n\rdx_", max_size=12).map(str.encode)


def token(names, values):
    return st.builds(
        lambda name, value, rest: name.encode() + b":" + value + rest,
        st.sampled_from(names),
        values,
        tail,
    )


undeclared = token(["x", "clic", "111", "click2"], st.binary(max_size=4)).map(
    lambda text: text.replace(b" ", b"").replace(b"\n", b"")
)


@st.composite
def good_lines(draw):
    tokens = draw(st.lists(token(SPARSE, good_id) | undeclared, max_size=12))
    for name, width in DENSE:
        if draw(st.booleans()):
            tokens += [draw(token([name], short_decimal)) for _ in range(width)]
    blanks = st.sampled_from([b" ", b" ", b"  "])
    line = b"".join(text + draw(blanks) for text in draw(st.permutations(tokens)))
    return draw(spaces) + line + draw(spaces)


any_token = (
    token(SPARSE, integer)
    | token([name for name, _ in DENSE], decimal)
    | token(SPARSE + [name for name, _ in DENSE], integer | decimal | garbage)
    | undeclared
    | garbage
)
any_line = st.lists(any_token, max_size=6).map(b" ".join)


def parse_native(segments, padding=0):
    try:
        parsed = SlotParser(SPARSE, DENSE, padding).parse(segments)
    except SlotTextError as error:
        return error.segment, error.line, error.column, error.token
    return to_comparable(parsed)


def parse_twin(segments, padding=0):
    try:
        parsed = ReferenceParser(SPARSE, DENSE, padding).parse(segments)
    except TwinTextError as error:
        return error.segment, error.line, error.column, error.token
    return to_comparable(parsed)


def to_comparable(parsed):
    return {
        "num_samples": parsed.num_samples,
        "ids": parsed.ids.tolist(),
        "offsets": parsed.offsets.tolist(),
        "dense": [(rows.shape, rows.dtype, rows.tobytes()) for rows in parsed.dense],
        "seen": parsed.seen.tolist(),
        "undeclared": parsed.undeclared,
        "num_empty": parsed.num_empty,
    }


@given(st.lists(good_lines(), max_size=8), st.sampled_from([0, -1, 7, 2**53 + 1]))
def test_good_lines_parse_as_the_twin_parses_them(lines, padding):
    text = b"\n".join(lines)
    expected = parse_twin([text], padding)
    assert isinstance(expected, dict)
    assert parse_native([text], padding) == expected


@given(st.lists(st.lists(any_line, max_size=4).map(b"\n".join), max_size=3))
def test_any_lines_parse_or_fail_as_the_twin_does(segments):
    assert parse_native(segments) == parse_twin(segments)


@given(st.lists(st.binary(max_size=60), max_size=3))
def test_any_bytes_parse_or_fail_as_the_twin_does(segments):
    assert parse_native(segments) == parse_twin(segments)


@given(integer)
def test_an_integer_is_read_as_the_twin_reads_it(value):
    assert parse_native([b"1:" + value]) == parse_twin([b"1:" + value])


@given(decimal)
def test_a_decimal_is_read_as_the_twin_reads_it(value):
    # Once at the very end of the text and once with bytes behind it: two ways through the scan.
    for text in (b"d:" + value, b"d:" + value + b" click:1 11:5555555555555"):
        assert parse_native([text]) == parse_twin([text])


cut = st.sampled_from(["none", "closed", "open", "with an empty segment"])


@given(st.lists(st.tuples(good_lines(), cut), max_size=8))
def test_segments_do_not_matter(lines_and_cuts):
    segments = [b""]
    for line, how in lines_and_cuts:
        # Without its newline an empty line would not show.
        segments[-1] += line if how == "open" and line else line + b"\n"
        if how != "none":
            segments.append(b"")
        if how == "with an empty segment":
            segments.append(b"")
    text = b"".join(line + b"\n" for line, _ in lines_and_cuts)
    assert parse_native(segments) == parse_native([text])


@given(st.text("a\n", max_size=30).map(str.encode), st.data())
def test_lines_are_cut_as_the_twin_cuts_them(text, data):
    begin = data.draw(st.integers(0, len(text)))
    max_lines = data.draw(st.integers(0, 12))
    assert cut_lines(text, begin, max_lines) == slot_text.cut_lines(text, begin, max_lines)


@given(st.lists(good_lines(), min_size=1, max_size=8), st.integers(1, 4))
def test_cut_segments_hold_the_text_s_lines(lines, max_lines):
    text = b"".join(line + b"\n" for line in lines)
    segments, begin = [], 0
    while begin < len(text):
        end, _ = cut_lines(text, begin, max_lines)
        segments.append(memoryview(text)[begin:end])
        begin = end
    assert parse_native(segments) == parse_native([text])


@pytest.mark.parametrize("num_zeros", [5000])
def test_thousands_of_leading_zeros_are_no_error(num_zeros):
    text = b"1:" + b"0" * num_zeros + b"5 d:" + b"0" * num_zeros + b".5"
    assert parse_native([text]) == parse_twin([text])
    assert isinstance(parse_native([text]), dict)
