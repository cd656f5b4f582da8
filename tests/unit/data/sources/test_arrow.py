import pyarrow as pa
import pyarrow.feather
import pytest

from fleetrec.core.errors import DataError
from making_data import make_source, read_block, read_chunks


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_feather_is_read(tmp_path, compression):
    table = pa.table({"f": [1, 2, 3], "other": ["x", "y", "z"]})
    pa.feather.write_feather(table, tmp_path / "t.feather", compression=compression, chunksize=2)
    block = read_block(tmp_path / "t.feather", sparse=("f",), dense=())
    assert block.ids["f"].values.tolist() == [1, 2, 3]
    assert block.counts.undeclared == {"other": 3}


def test_only_declared_columns_are_read(tmp_path):
    table = pa.table({"other": ["x", "y"], "f": [1, 2]})
    pa.feather.write_feather(table, tmp_path / "t.feather")
    source, (file,) = make_source(tmp_path / "t.feather", sparse=("f",), dense=())
    (chunk,) = read_chunks(source, file)
    assert chunk.rows.schema.names == ["f"]


def test_a_single_record_batch_can_be_cut(tmp_path):
    pa.feather.write_feather(pa.table({"f": list(range(100))}), tmp_path / "t.arrow")
    source, (file,) = make_source(tmp_path / "t.arrow", sparse=("f",), dense=())
    assert [source.cut(file, fraction) for fraction in (0, 0.25, 0.5)] == [0, 25, 50]


def test_empty_record_batches_are_passed_over(tmp_path):
    schema = pa.schema([("f", pa.int64())])
    with pa.ipc.new_file(tmp_path / "t.arrow", schema) as writer:
        for values in ([], [1], [], [2, 3], []):
            writer.write_batch(pa.record_batch([pa.array(values, pa.int64())], schema))
    source, (file,) = make_source(tmp_path / "t.arrow", sparse=("f",), dense=())
    chunks = read_chunks(source, file)
    assert [chunk.num_rows for chunk in chunks] == [1, 2]
    assert source.decode(chunks).ids["f"].values.tolist() == [1, 2, 3]


def test_the_old_feather_format_is_named(tmp_path):
    (tmp_path / "t.feather").write_bytes(b"FEA1" + b"\0" * 100)
    with pytest.raises(DataError, match="got Feather version 1"):
        read_block(tmp_path / "t.feather", sparse=("f",), dense=())


def test_a_file_of_no_bytes_is_an_error(tmp_path):
    (tmp_path / "t.arrow").touch()
    with pytest.raises(DataError, match=r"t.arrow: .*empty"):
        read_block(tmp_path / "t.arrow", sparse=("f",), dense=())
