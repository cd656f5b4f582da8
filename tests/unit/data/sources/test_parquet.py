import pyarrow as pa
import pyarrow.parquet
import pytest

from fleetrec.core.errors import DataError
from fleetrec.data.source import FileSlice
from fleetrec.data.sources import parquet
from making_data import make_source, read_block, read_chunks


def write(path, columns, **options):
    pa.parquet.write_table(pa.table(columns), path, **options)
    return path


def test_pieces_stay_small_where_rows_are_large(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "CHUNK_BYTES", 1 << 16)
    lists = [list(range(i, i + 1000)) for i in range(100)]
    path = write(tmp_path / "t.parquet", {"f": lists}, use_dictionary=False)
    source, (file,) = make_source(path, sparse=("f",), dense=())
    chunks = read_chunks(source, file)
    assert max(chunk.num_rows for chunk in chunks) < 10
    assert sum(chunk.num_rows for chunk in chunks) == 100


def test_only_declared_columns_are_read(tmp_path):
    path = write(tmp_path / "t.parquet", {"f": [1, 2], "other": ["x", "y"]})
    source, (file,) = make_source(path, sparse=("f",), dense=())
    (chunk,) = read_chunks(source, file)
    assert chunk.rows.schema.names == ["f"]


def test_a_file_without_any_declared_column_is_padding(tmp_path):
    path = write(tmp_path / "t.parquet", {"other": [1, 2, 3]})
    block = read_block(path, sparse=("f",), dense=())
    assert block.ids["f"].values.tolist() == [0, 0, 0]
    assert block.counts.undeclared == {"other": 3}


def test_parts_begin_and_end_within_row_groups(tmp_path):
    path = write(tmp_path / "t.parquet", {"f": list(range(100))}, row_group_size=7)
    source, (file,) = make_source(path, sparse=("f",), dense=())
    part = FileSlice(file=file, begin=10, end=31)
    chunks = list(source.read(part, offset=10, row=0))
    assert source.decode(chunks).ids["f"].values.tolist() == list(range(10, 31))
    assert (chunks[0].begin_fraction, chunks[-1].fraction) == (0, 1)


def test_files_may_differ_in_their_columns(tmp_path):
    write(tmp_path / "0.parquet", {"f": [1], "g": [2]})
    write(tmp_path / "1.parquet", {"g": ["3"]})
    block = read_block(tmp_path, sparse=("f", "g"), dense=())
    assert block.ids.values_N.tolist() == [1, 0, 2, 3]


def test_a_column_of_a_wrong_type_names_the_file(tmp_path):
    path = write(tmp_path / "t.parquet", {"f": [1.5]})
    with pytest.raises(DataError, match=r"t.parquet: column 'f': ids are integers.*got double"):
        read_block(path, sparse=("f",), dense=())
