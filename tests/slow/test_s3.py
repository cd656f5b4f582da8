"""Data on S3: a real server on this machine, spoken to over HTTP."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from fleetrec.core.errors import DataError
from fleetrec.data.files import list_files
from fleetrec.data.loader import Loader
from making_data import SAMPLES, WRITERS, make_options, read_block, to_comparable

s3fs = pytest.importorskip("s3fs")
pytest.importorskip("moto")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.multiprocess,
    # botocore's own, of Python versions and dates
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

FORMATS = ("slots.gz", "table.csv", "table.parquet", "table.arrow")


def upload(bucket, name, content):
    s3fs.S3FileSystem().pipe(f"{bucket}/{name}", content)
    return f"s3://{bucket}/{name}"


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_on_s3_gives_the_same_block(bucket, name, tmp_path):
    local = WRITERS[name](SAMPLES, tmp_path / name)
    url = upload(bucket, f"day/{name}", local.read_bytes())
    assert to_comparable(read_block(url)) == to_comparable(read_block(local))


def test_a_folder_on_s3_is_trained_on_in_order(bucket, tmp_path):
    for i in range(3):
        sample = [{"click": i, "item": i}] * 10
        local = WRITERS["table.csv"](sample, tmp_path / f"{i}.csv")
        upload(bucket, f"day/{i}.csv", local.read_bytes())
    upload(bucket, "day/_SUCCESS", b"")
    options = make_options(f"s3://{bucket}/day", sparse=("click",), dense=(), thread_num=2)
    with Loader(options, seed=0).epoch(0) as batches:
        clicks = [x for batch in batches for x in batch.ids["click"].values.tolist()]
    assert clicks == [0] * 10 + [1] * 10 + [2] * 10


def test_of_a_parquet_file_only_wanted_columns_are_fetched(bucket, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    columns = {f"c{i}": rng.integers(0, 2**62, 50_000) for i in range(20)}
    path = tmp_path / "t.parquet"
    pa.parquet.write_table(pa.table(columns), path, row_group_size=10_000)
    url = upload(bucket, "t.parquet", path.read_bytes())
    num_fetched = []
    fetch = s3fs.S3File._fetch_range

    def counted(self, start, end):
        num_fetched.append(end - start)
        return fetch(self, start, end)

    monkeypatch.setattr(s3fs.S3File, "_fetch_range", counted)
    block = read_block(url, sparse=("c7",), dense=())
    assert block.ids["c7"].values.numpy().tolist() == columns["c7"].tolist()
    assert sum(num_fetched) < 0.1 * path.stat().st_size


def one_line_error(url):
    with pytest.raises(DataError) as caught:
        list_files(url)
    message = str(caught.value)
    assert message.startswith(f"{url}: ")
    assert "\n" not in message
    return message


def test_a_missing_bucket_is_an_error_in_one_line(bucket):
    assert "bucket does not exist" in one_line_error("s3://nowhere-at-all/day")


def test_a_missing_folder_is_an_error_in_one_line(bucket):
    assert "no such file or folder" in one_line_error(f"s3://{bucket}/nothing")


def test_missing_credentials_are_an_error_in_one_line(bucket, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    s3fs.S3FileSystem.clear_instance_cache()
    assert "credentials" in one_line_error(f"s3://{bucket}/day")


def test_a_server_that_is_not_there_is_an_error_in_one_line(bucket, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    s3fs.S3FileSystem.clear_instance_cache()
    assert "127.0.0.1:9" in one_line_error(f"s3://{bucket}/day")
