import numpy as np
import pytest

from fleetrec._native import fingerprint64
from fleetrec.config.features import IdRule
from fleetrec.config.job import DenseSlot, TextTableOptions
from fleetrec.core.errors import DataError
from fleetrec.data.source import BadRowError, FileSlice
from making_data import make_source, read_block, read_chunks, write_text


def read(tmp_path, text, *, sparse=("click", "item"), dense=(), **changes):
    table = {k: changes.pop(k) for k in list(changes) if k in TextTableOptions.model_fields}
    path = write_text(tmp_path / "t.csv", text)
    return read_block(
        path, sparse=sparse, dense=dense, text_table=TextTableOptions(**table), **changes
    )


def hashed(text):
    return int(np.uint64(fingerprint64(text)).astype(np.int64))


def ids(block, name="item"):
    jagged = block.ids[name]
    return [part.tolist() for part in jagged.values.split(jagged.lengths().tolist())]


def test_the_first_line_names_the_columns(tmp_path):
    block = read(tmp_path, "item,click\n7,1\n8,0\n")
    assert ids(block) == [[7], [8]]
    assert ids(block, "click") == [[1], [0]]


def test_columns_may_be_named_by_the_job(tmp_path):
    block = read(tmp_path, "1,7\n0,8", columns=("click", "item"))
    assert ids(block) == [[7], [8]]


@pytest.mark.parametrize("separator", ["\t", "\x01", ";", " "])
def test_any_byte_may_part_columns(tmp_path, separator):
    text = "click,item,x\n1,7|8,\n,,3\n".replace(",", separator)
    block = read(tmp_path, text, separator=separator)
    assert ids(block) == [[7, 8], [0]]
    assert block.counts.seen.tolist() == [1, 1]


def test_quoted_cells_hold_separators_and_quotes(tmp_path):
    block = read(tmp_path, 'click,item\n1,"a,""b"""\n1,"7"\n0,""\n')
    assert ids(block) == [[hashed('a,"b"')], [7], [0]]


def test_without_a_quote_quotes_are_text(tmp_path):
    block = read(tmp_path, 'click,item\n1,"7"\n1,"\n', quote="")
    assert ids(block) == [[hashed('"7"')], [hashed('"')]]


def test_a_quote_within_a_cell_is_text(tmp_path):
    assert ids(read(tmp_path, 'click,item\n1,5"x\n')) == [[hashed('5"x')]]


def test_numbers_are_never_guessed(tmp_path):
    cells = ["007", "18446744073709551615", "-9223372036854775808", "1.0", "1e3", "NULL", "nan"]
    block = read(tmp_path, "click,item\n" + "".join(f"1,{cell}\n" for cell in cells))
    assert ids(block) == [[7], [-1], [-(2**63)], *([hashed(cell)] for cell in cells[3:])]


def test_weights_stand_behind_ids(tmp_path):
    block = read(tmp_path, "click,item\n1,a:0.5|b|7:2\n0,\n", weight_separator=":")
    assert ids(block) == [[hashed("a"), hashed("b"), 7], [0]]
    assert block.ids.weights_N.tolist() == [1.0, 1.0, 0.5, 1.0, 2.0, 1.0]


def test_id_rules_apply(tmp_path):
    rules = {"item": IdRule(vocabulary=("b", "a")), "click": IdRule(buckets=2)}
    block = read(tmp_path, "click,item\n3,a|c\n2,\n", id_rules=rules, padding=-7)
    assert ids(block) == [[2, 0], [-7]]
    assert ids(block, "click") == [[1], [0]]


@pytest.mark.parametrize("names", ["v", "v1,v2,v3", "v_1,v_2,v_3"])
def test_a_vector_is_one_cell_or_numbered_columns(tmp_path, names):
    row = "1|2|3" if names == "v" else "1,2,3"
    empty = "" if names == "v" else ",,"
    dense = (DenseSlot(name="v", shape=(3,)),)
    block = read(tmp_path, f"click,{names}\n1,{row}\n0,{empty}\n", dense=dense, padding=9)
    assert block.dense["v"].tolist() == [[1, 2, 3], [9, 9, 9]]
    assert block.counts.seen.tolist() == [2, 0, 1]
    assert block.counts.undeclared == {}


def test_of_numbered_columns_some_may_be_missing(tmp_path):
    dense = (DenseSlot(name="v", shape=(2,)),)
    block = read(tmp_path, "click,v1,v2\n1,5,\n0,,\n", dense=dense)
    assert block.dense["v"].tolist() == [[5, 0], [0, 0]]
    assert block.counts.seen.tolist() == [2, 0, 1]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_empty_lines_are_samples_of_padding(tmp_path, end):
    block = read(tmp_path, end.join(["click,item", "1,7", "", "", "1,8", "", ""]))
    assert ids(block) == [[7], [0], [0], [8], [0]]
    assert block.counts.num_empty == 3


def test_a_table_of_one_column_may_have_empty_lines(tmp_path):
    assert ids(read(tmp_path, "item\n7\n\n8\n")) == [[7], [0], [8]]


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    assert ids(read(tmp_path, "\ufeffitem,click\n7,1\n")) == [[7]]


def test_a_byte_order_mark_within_a_file_is_text(tmp_path):
    path = write_text(tmp_path / "t.csv", "item,click\n1,1\n\ufeff7,1\n")
    source, (file,) = make_source(path, sparse=("item",), dense=())
    (chunk,) = read_chunks(source, file)
    _, second = chunk.take(1)
    assert ids(source.decode([second])) == [[hashed("\ufeff7")]]


def test_bytes_that_are_not_utf8_are_hashed_as_they_are(tmp_path):
    assert ids(read(tmp_path, b"click,item\n1,\xff\xfe\n")) == [[hashed(b"\xff\xfe")]]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("1,2\n1\n", "t.csv:3: '1': expected 2 cells, got 1"),
        ("1,2\n1,2,3\n", "t.csv:3: '1,2,3': expected 2 cells, got 3"),
        ('1,2\n1,"2\n3,4\n', "t.csv:3: '1,\"2': a quote is not closed"),
        ('1,2\n1,"2\n3",4\n', "t.csv:3: '1,\"2': a quote is not closed"),
        ('1,2\n1,"2\n"\n', "t.csv:3: '1,\"2': a quote is not closed"),
        ('1,2\n1,"2', "t.csv:3: '1,\"2': a quote is not closed"),
        ('"1",2\n1,2\r3,4\n', "t.csv:3: '1,2.*': a carriage return within a line"),
        ("\n1\n", "t.csv:3: '1': expected 2 cells, got 1"),
    ],
)
def test_a_line_that_cannot_be_cut_is_named(tmp_path, rows, message):
    with pytest.raises(BadRowError, match=message) as caught:
        read(tmp_path, "click,item\n" + rows)
    assert caught.value.row == 1


def test_the_first_of_several_bad_rows_is_named(tmp_path):
    dense = (DenseSlot(name="d", shape=(1,)), DenseSlot(name="e", shape=(1,)))
    text = "click,d,e\n1,1,1\n1,1,x\n1,y,1\n1\n"
    with pytest.raises(
        BadRowError, match=r"t.csv:3: column 'e': 'x': expected a decimal"
    ) as caught:
        read(tmp_path, text, sparse=("click",), dense=dense)
    assert caught.value.row == 1


def test_without_a_header_lines_are_counted_from_the_first(tmp_path):
    with pytest.raises(BadRowError, match=r"t.csv:2: '1'"):
        read(tmp_path, "1,2\n1\n", columns=("click", "item"))


def test_a_file_without_a_header_is_told_from_one_with_a_wrong_one(tmp_path):
    with pytest.raises(DataError, match=r"t.csv:1: expected a line that names the columns.*'1,7'"):
        read(tmp_path, "1,7\n0,8\n")


def test_columns_of_the_same_name_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"t.csv:1: .*'item' twice"):
        read(tmp_path, "click,item,item\n1,2,3\n")


@pytest.mark.parametrize("separator", ["||", "\n", "é"])
def test_a_separator_of_several_bytes_is_refused(tmp_path, separator):
    with pytest.raises(DataError, match="list_separator: expected one byte"):
        read(tmp_path, "click\n1\n", list_separator=separator)


def test_separators_must_differ(tmp_path):
    with pytest.raises(DataError, match="must differ"):
        read(tmp_path, "click\n1\n", separator="|")


def test_a_header_longer_than_the_part_is_not_a_row(tmp_path):
    path = write_text(tmp_path / "t.csv", f"click,item,{'x' * 1000}\n1,2,3\n")
    source, (file,) = make_source(path, sparse=("click",), dense=())
    place = source.cut(file, 0.01)
    first = FileSlice(file=file, begin=0, end=place)
    rest = FileSlice(file=file, begin=place)
    assert list(source.read(first, offset=0, row=0)) == []
    assert [chunk.num_rows for chunk in source.read(rest, offset=place, row=0)] == [1]
