"""Random text and records parse equally in the native parsers and in their slow twins."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetrec._native import (
    ExampleParser,
    RecordError,
    SlotTextError,
    SvmParser,
    WireParser,
    cut_records,
    find_record,
)
from making_rows import field, to_example, to_record, varint
from reference.example import TwinExampleError, parse_example
from reference.samples import expected_block
from reference.text_formats import TwinFormatError, parse_svm, parse_wire

SPARSE = ["a", "b"]
DENSE = [("d", 2)]

good_id = st.integers(-(2**63), 2**64 - 1)
decimal = st.floats(-1e30, 1e30).map(repr) | st.sampled_from(["0", ".5", "-7", "1e-40"])
blanks = st.sampled_from([" ", " ", "\t", "  "])
garbage = st.sampled_from(["x", "", "-", "1.5", ":", "99999999999999999999", "#", "1:2", "\r"])


def contents(parsed):
    return {
        "ids": parsed.ids.tolist(),
        "offsets": parsed.offsets.tolist(),
        "dense": {f"{i}": rows.tobytes() for i, rows in enumerate(parsed.dense)},
        "seen": parsed.seen.tolist(),
    }


def wrapped(values):
    return [v - 2**64 if v >= 2**63 else v for v in values]


def expected(samples, *, sparse, dense):
    wrap = [
        {name: wrapped(values) if name in sparse else values for name, values in sample.items()}
        for sample in samples
    ]
    block = expected_block(wrap, sparse=sparse, dense=dict(dense))
    return {**block, "dense": {f"{i}": rows for i, rows in enumerate(block["dense"].values())}}


@st.composite
def wire_lines(draw):
    tokens = []
    width = draw(st.sampled_from([0, 2]))
    tokens += [str(width), *(draw(decimal) for _ in range(width))]
    for _ in SPARSE:
        ids = draw(st.lists(good_id, max_size=3))
        tokens += [str(len(ids)), *map(str, ids)]
    if draw(st.integers(0, 5)) == 0:
        tokens.insert(draw(st.integers(0, len(tokens))), draw(garbage))
    return "".join(token + draw(blanks) for token in tokens)


@given(st.lists(wire_lines(), max_size=5))
def test_wire_text_parses_as_the_twin_parses_it(lines):
    text = "\n".join(lines).encode()
    parser = WireParser(SPARSE, DENSE)
    try:
        samples = parse_wire(text, dense=DENSE, sparse=SPARSE)
    except TwinFormatError as error:
        with pytest.raises(SlotTextError) as caught:
            parser.parse([text])
        assert caught.value.line == error.line
    else:
        assert contents(parser.parse([text])) == expected(samples, sparse=SPARSE, dense=DENSE)


@given(st.lists(st.text("0123 x.:-#\t\n", max_size=30).map(str.encode), max_size=2))
def test_any_text_is_parsed_or_refused_by_both(segments):
    text = b"\n".join(segments)
    for parser, twin in (
        (WireParser(["a"], []), lambda: parse_wire(text, dense=[], sparse=["a"])),
        (svm_parser(None), lambda: parse_svm(text, fields=None)),
        (svm_parser(["1", "2"]), lambda: parse_svm(text, fields=["1", "2"])),
    ):
        try:
            num_samples = len(twin())
        except TwinFormatError as error:
            with pytest.raises(SlotTextError) as caught:
                parser.parse([text])
            assert caught.value.line == error.line
        else:
            assert parser.parse([text]).num_samples == num_samples


def svm_parser(fields):
    return SvmParser(
        label="label",
        is_dense_label=False,
        slots=["f"] if fields is None else fields,
        has_fields=fields is not None,
    )


@st.composite
def svm_lines(draw, fields):
    tokens = [str(draw(good_id))]
    for _ in range(draw(st.integers(0, 4))):
        field_name = "" if fields is None else draw(st.sampled_from([*fields, "9"])) + ":"
        tokens.append(f"{field_name}{draw(good_id)}:{draw(decimal)}")
    if draw(st.integers(0, 5)) == 0:
        tokens.insert(draw(st.integers(0, len(tokens))), draw(garbage))
    return "".join(token + draw(blanks) for token in tokens)


@pytest.mark.parametrize("fields", [None, ["1", "22"]], ids=["libsvm", "libffm"])
@given(st.data())
def test_svm_text_parses_as_the_twin_parses_it(fields, data):
    text = "\n".join(data.draw(st.lists(svm_lines(fields), max_size=5))).encode()
    parser = svm_parser(fields)
    try:
        samples = parse_svm(text, fields=fields)
    except TwinFormatError as error:
        with pytest.raises(SlotTextError) as caught:
            parser.parse([text])
        assert caught.value.line == error.line
        return
    slots = ["label", *(fields or ["f"])]
    parsed = parser.parse([text])
    assert contents(parsed) == expected(samples, sparse=slots, dense=[])
    weights = [
        weight
        for name in slots
        for sample in samples
        for weight in sample.get(f"{name} weights", [1.0] * len(sample.get(name, [0])))
    ]
    assert parsed.weights.tolist() == pytest.approx(weights, rel=1e-6, abs=1e-40)


example_values = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3) | st.lists(
    st.floats(width=32), min_size=1, max_size=2
)
examples = st.builds(
    lambda sample, packed: to_example(sample, packed=packed),
    st.dictionaries(st.sampled_from(["a", "b", "d", "x"]), example_values),
    st.booleans(),
)


@st.composite
def messages(draw, depth=3):
    """Fields that may be those of an example, in any nesting."""
    data = b""
    for _ in range(draw(st.integers(0, 2))):
        inner = draw(messages(depth - 1)) if depth else draw(st.sampled_from([b"a", b"d", b"1234"]))
        data += draw(
            st.sampled_from(
                [field(1, inner), field(2, inner), field(3, inner), varint(8) + varint(len(inner))]
            )
        )
    return data


@given(st.lists(examples | messages() | st.binary(max_size=20), max_size=4))
def test_examples_parse_as_the_twin_parses_them(records):
    parser = ExampleParser(SPARSE, DENSE)
    data = b"".join(map(to_record, records))
    samples = []
    for number, record in enumerate(records):
        try:
            samples.append(parse_example(record, sparse=SPARSE, dense=DENSE))
        except TwinExampleError:
            with pytest.raises(RecordError) as caught:
                parser.parse([data])
            assert caught.value.record == number
            return
    assert contents(parser.parse([data])) == expected(samples, sparse=SPARSE, dense=DENSE)


@given(st.lists(st.binary(max_size=30), max_size=5), st.data())
def test_records_are_cut_and_found_where_they_begin(records, data):
    parts = [to_record(record) for record in records]
    joined = b"".join(parts)
    places = [len(b"".join(parts[:i])) for i in range(len(parts) + 1)]
    wanted = data.draw(st.integers(0, 6))
    num_records = min(wanted, len(records))
    assert cut_records(joined, 0, wanted) == (places[num_records], num_records)
    begin = data.draw(st.integers(0, len(joined)))
    assert find_record(joined, begin) == next((p for p in places[:-1] if p >= begin), None)
