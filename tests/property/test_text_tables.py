"""Whatever stands in cells comes back, however the file is cut into batches."""

import csv
import io
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetrec._native import fingerprint64, parse_id_cells
from fleetrec.config.job import DenseSlot, TextTableOptions
from fleetrec.data.files import DataFile
from fleetrec.data.plan import whole_file
from fleetrec.data.sources.csv import Csv
from making_data import make_options

DENSE = (DenseSlot(name="d", shape=(2,)),)
text = st.text(st.characters(codec="utf-8", exclude_characters="\r\n|:\x00"), min_size=1)
number = st.integers(-(2**63), 2**64 - 1).map(str)
like_number = st.from_regex(r"\A[+-]?[0-9]{1,25}(\.0)?\Z")
value = number | like_number | text
cell = st.lists(value, max_size=3)
vector = st.none() | st.tuples(*[st.floats(allow_nan=False, allow_infinity=False, width=32)] * 2)
row = st.tuples(cell, cell, vector)


def to_id(text):
    """The slow twin of the rule for ids."""
    digits = text.removeprefix("-") if text[:1] == "-" else text.removeprefix("+")
    is_decimal = digits.isascii() and digits.isdigit()
    if is_decimal and -(2**63) <= int(text) < 2**64:
        return int(text) % 2**64
    return fingerprint64(text)


def write(rows, separator):
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=separator, lineterminator="\n")
    writer.writerow(["a", "b", "d"])
    for a, b, d in rows:
        writer.writerow(["|".join(a), "|".join(b), "" if d is None else "|".join(map(repr, d))])
    return stream.getvalue().encode()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("csv") / "t.csv"


@given(
    rows=st.lists(row, max_size=8),
    separator=st.sampled_from([",", "\t", ";", "\x01"]),
    batch_rows=st.integers(1, 4),
)
def test_cells_come_back(path, rows, separator, batch_rows):
    path.write_bytes(write(rows, separator))
    options = make_options(
        path, sparse=("a", "b"), dense=DENSE, text_table=TextTableOptions(separator=separator)
    )
    source = Csv(options)
    file = DataFile(path=str(path), name="t.csv", num_bytes=path.stat().st_size)
    found = {"a": [], "b": [], "d": []}
    for chunk in source.read(whole_file(file), offset=0, row=0):
        rest = chunk
        while rest is not None:
            head, rest = rest.take(batch_rows)
            block = source.decode([head])
            for name in ("a", "b"):
                jagged = block.ids[name]
                lists = jagged.values.split(jagged.lengths().tolist())
                found[name] += [ids.numpy().view(np.uint64).tolist() for ids in lists]
            found["d"] += block.dense["d"].tolist()
    assert found == {
        "a": [[to_id(text) for text in a] or [0] for a, _, _ in rows],
        "b": [[to_id(text) for text in b] or [0] for _, b, _ in rows],
        "d": [[0, 0] if d is None else list(d) for _, _, d in rows],
    }


@given(st.lists(st.binary(max_size=40), max_size=6), st.booleans(), st.sampled_from([None, b"C1="]))
def test_any_bytes_are_ids(cells, has_lists, prefix):
    offsets = np.cumsum([0, *map(len, cells)]).astype(np.int64)
    ids, ends, _ = parse_id_cells(
        offsets,
        np.frombuffer(b"".join(cells), np.uint8),
        list_separator=b"|" if has_lists else None,
        weight_separator=None,
        prefix=prefix,
    )
    expected = []
    for content in cells:
        values = [v for v in (content.split(b"|") if has_lists else [content]) if v]
        expected.append(
            [bytes_id(v) if prefix is None else fingerprint64(prefix + v) for v in values]
        )
    found = [ids[a:b].view(np.uint64).tolist() for a, b in itertools.pairwise(ends)]
    assert found == expected


def bytes_id(content):
    """Bytes that are not ASCII are no number."""
    return to_id(content.decode()) if content.isascii() else fingerprint64(content)
