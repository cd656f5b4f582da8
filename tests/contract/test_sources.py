"""Every format gives the same samples, and may be read from any place on."""

import itertools

import numpy as np
import pytest

from fleetrec.core.errors import DataError
from fleetrec.data.block import Block
from fleetrec.data.plan import DataShard, plan_slices, whole_file
from fleetrec.data.source import BadRowError, FileSlice
from making_data import (
    DENSE,
    SAMPLES,
    WRITERS,
    make_source,
    read_block,
    read_chunks,
    to_comparable,
    write_slot_text,
)

MANY = tuple(itertools.islice(itertools.cycle(SAMPLES), 50))
each_format = pytest.mark.parametrize("name", sorted(WRITERS))
# Compressed text and streams can only be read from their beginning.
UNCUT = {"slots.gz", "table.csv.gz", "table.arrows"}
each_cut_format = pytest.mark.parametrize("name", sorted(set(WRITERS) - UNCUT))
# Half a text file is a text file.
each_fragile_format = pytest.mark.parametrize("name", sorted(set(WRITERS) - {"slots", "table.csv"}))


def rows_of(source, chunks):
    return to_comparable(source.decode(chunks)) if chunks else None


@each_format
def test_the_same_samples_give_the_same_block(name, tmp_path):
    expected = read_block(write_slot_text(MANY, tmp_path / "expected"))
    found = read_block(WRITERS[name](MANY, tmp_path / "data" / name))
    assert to_comparable(found) == to_comparable(expected)
    assert found.ids.values_N.dtype == expected.ids.values_N.dtype


@each_format
@pytest.mark.parametrize("num_rows", [1, 2, 3, 7, 49])
def test_reading_goes_on_behind_any_row(name, num_rows, tmp_path):
    source, (file,) = make_source(WRITERS[name](MANY, tmp_path / name))
    whole = read_chunks(source, file)
    taken, rest = [], list(whole)
    while num_rows:
        head, tail = rest.pop(0).take(num_rows)
        num_rows -= head.num_rows
        taken.append(head)
        if tail is not None:
            rest.insert(0, tail)
    last = taken[-1]
    again = list(source.read(whole_file(file), offset=last.end, row=last.first_row + last.num_rows))
    assert rows_of(source, again) == rows_of(source, rest)
    assert again[0].first_row == last.first_row + last.num_rows
    assert to_comparable(source.decode([*taken, *again])) == rows_of(source, whole)


@each_format
def test_reading_goes_on_behind_every_piece(name, tmp_path):
    source, (file,) = make_source(WRITERS[name](MANY, tmp_path / name))
    chunks = read_chunks(source, file)
    for i, chunk in enumerate(chunks):
        row = chunk.first_row + chunk.num_rows
        again = list(source.read(whole_file(file), offset=chunk.end, row=row))
        assert rows_of(source, again) == rows_of(source, chunks[i + 1 :])


@each_format
def test_pieces_tell_how_much_of_the_part_is_read(name, tmp_path):
    source, (file,) = make_source(WRITERS[name](MANY, tmp_path / name))
    chunks = []
    for chunk in read_chunks(source, file):
        rest = chunk
        while rest is not None:
            head, rest = rest.take(3)
            chunks.append(head)
    fractions = [chunk.fraction for chunk in chunks]
    assert fractions == sorted(fractions)
    assert all(0 <= fraction <= 1 for fraction in fractions)
    assert [chunk.first_row for chunk in chunks] == np.cumsum(
        [0, *(chunk.num_rows for chunk in chunks[:-1])]
    ).tolist()


@each_cut_format
@pytest.mark.parametrize("num_parts", [1, 2, 3, 8, 60])
def test_cuts_cover_each_row_once(name, num_parts, tmp_path):
    source, (file,) = make_source(WRITERS[name](MANY, tmp_path / name))
    places = [source.cut(file, i / num_parts) for i in range(num_parts)]
    assert places[0] == 0
    assert places == sorted(places)
    chunks = []
    for begin, end in zip(places, [*places[1:], None], strict=True):
        part = FileSlice(file=file, begin=begin, end=end, num_bytes=file.num_bytes // num_parts)
        chunks += source.read(part, offset=begin, row=0)
    assert rows_of(source, chunks) == rows_of(source, read_chunks(source, file))


@each_cut_format
def test_workers_share_one_file(name, tmp_path):
    source, files = make_source(WRITERS[name](MANY, tmp_path / name))
    chunks = []
    for worker in range(3):
        for part in plan_slices(files, source, DataShard(index=worker, count=3)):
            chunks += source.read(part, offset=part.begin, row=0)
    assert rows_of(source, chunks) == rows_of(source, read_chunks(source, files[0]))


@pytest.mark.parametrize("name", sorted(UNCUT))
def test_what_cannot_be_entered_in_the_middle_has_no_cut(name, tmp_path):
    source, (file,) = make_source(WRITERS[name](MANY, tmp_path / name))
    assert source.cut(file, 0.5) is None


@each_format
def test_a_file_without_rows_has_no_pieces(name, tmp_path):
    path = WRITERS[name]([], tmp_path / name)
    source, (file,) = make_source(path)
    assert read_chunks(source, file) == []
    assert to_comparable(read_block(path)) == to_comparable(Block.empty(source.inputs))


@each_format
def test_undeclared_columns_are_counted(name, tmp_path):
    samples = [{**sample, "other": 5} for sample in SAMPLES]
    block = read_block(WRITERS[name](samples, tmp_path / name))
    assert block.counts.undeclared == {"other": len(SAMPLES)}
    assert to_comparable(block) == to_comparable(
        read_block(write_slot_text(SAMPLES, tmp_path / "expected"))
    )


@each_format
def test_a_feature_that_no_sample_has_is_padding(name, tmp_path):
    samples = [{"click": 1, "item": 3}] * 5
    block = read_block(
        WRITERS[name](samples, tmp_path / name), sparse=("click", "never"), dense=DENSE, padding=9
    )
    assert block.ids["never"].values.tolist() == [9] * 5
    assert block.dense["image"].tolist() == [[[9.0, 9.0], [9.0, 9.0]]] * 5
    assert block.counts.seen.tolist() == [5, 0, 0, 0]


@each_format
def test_a_bad_value_names_file_row_and_feature(name, tmp_path):
    samples = [dict(sample) for sample in MANY]
    samples[17]["price"] = [float("inf")]
    samples[30]["price"] = [float("nan")]
    path = WRITERS[name](samples, tmp_path / name)
    source, (file,) = make_source(path)
    chunks = read_chunks(source, file)
    with pytest.raises(BadRowError) as caught:
        source.decode(chunks)
    line = 18 + ("csv" in name)
    place = f"{path}:{line}: " if "table.ar" not in name and "parquet" not in name else None
    assert str(caught.value).startswith(place or f"{path}: row 18: ")
    assert "price" in str(caught.value)
    assert "inf" in str(caught.value)
    assert caught.value.row == 17


@each_cut_format
def test_a_bad_value_behind_a_cut_names_the_row_in_the_file(name, tmp_path):
    samples = [dict(sample) for sample in MANY]
    samples[-1]["price"] = [float("inf")]
    source, (file,) = make_source(WRITERS[name](samples, tmp_path / name))
    begin = source.cut(file, 0.7)
    part = FileSlice(file=file, begin=begin, num_bytes=file.num_bytes)
    chunks = list(source.read(part, offset=begin, row=0))
    with pytest.raises(BadRowError, match=rf"(:{50 + ('csv' in name)}|row 50): "):
        source.decode(chunks)


@each_format
def test_a_file_that_is_not_of_the_format_is_an_error_in_one_line(name, tmp_path):
    path = WRITERS[name](MANY, tmp_path / name)
    path.write_bytes(b"\x1f\x8b\x00nonsense")
    with pytest.raises(DataError) as caught:
        read_block(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@each_fragile_format
def test_a_damaged_file_is_an_error_in_one_line(name, tmp_path):
    path = WRITERS[name](MANY, tmp_path / name)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError) as caught:
        read_block(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
