"""What columns of a table are, by their type, values and names."""

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fleetrec.core.errors import DataError
from fleetrec.planning.table_profile import profile_table

HEADER = "is_click,user_id,item,tags,price,age,timestamp,request_id,channel,length"


def make_csv(folder, *, num_rows=1200, separator=",", header=HEADER):
    draw = random.Random(0)
    lines = [header] if header else []
    for row in range(num_rows):
        cells = [
            draw.randrange(2),
            draw.randrange(300),
            f"item-{draw.randrange(50)}",
            "|".join(draw.sample(["red", "blue", "hat"], draw.randrange(4))),
            round(draw.random() * 100, 2),
            draw.choice([draw.randrange(18, 70), ""]),
            1_700_000_000 + row,
            f"r{row}",
            "web",
            draw.randrange(10**6),
        ]
        lines.append(",".join(map(str, cells)).replace(",", separator))
    path = folder / "data.csv"
    path.write_text("\n".join([line.replace(",", separator) for line in lines]) + "\n")
    return str(path)


KINDS = {
    "is_click": "id",
    "user_id": "id",
    "item": "id",
    "tags": "list",
    "price": "number",
    "age": "id",
    "timestamp": "time",
    "request_id": "unused",
    "channel": "unused",
    "length": "number",
}


@pytest.mark.parametrize("separator", [",", "\t", ";"])
def test_columns_of_a_csv_get_kinds(separator, tmp_path):
    profile = profile_table(make_csv(tmp_path, separator=separator))
    assert profile.format.separator == separator
    assert profile.format.has_header
    assert profile.num_rows == 1200
    assert profile.is_whole
    assert {column.name: column.kind for column in profile.columns} == KINDS
    assert profile.column("is_click").is_binary
    tags = profile.column("tags")
    assert (tags.list_separator, tags.num_unique) == ("|", 3)
    assert 0.4 < profile.column("age").missing_share < 0.6
    price = profile.column("price")
    assert len(price.quantiles) == 9
    assert list(price.quantiles) == sorted(price.quantiles)
    assert 40 < price.median < 60


def test_columns_without_a_header_are_numbered(tmp_path):
    profile = profile_table(make_csv(tmp_path, header=""))
    assert not profile.format.has_header
    assert [column.name for column in profile.columns][:2] == ["column1", "column2"]
    assert profile.column("column3").kind == "id"


def test_parquet_has_types_of_its_own(tmp_path):
    table = pa.table(
        {
            "label": [0, 1] * 20,
            "who": pa.array(["a", "b", None, "d"] * 10),
            "seen": [[1, 2], [], [3], [4, 4]] * 10,
            "score": [0.5, 1.5, 2.5, float("nan")] * 10,
            "when": pa.array([10, 20, 30, 40] * 10, pa.timestamp("s")),
        }
    )
    pq.write_table(table, tmp_path / "rows.parquet")
    profile = profile_table(str(tmp_path / "rows.parquet"))
    assert profile.format.format == "parquet"
    found = {column.name: (column.kind, column.num_unique) for column in profile.columns}
    assert found["who"] == ("id", 3)
    assert found["seen"] == ("list", 4)
    assert found["when"][0] == "time"
    assert profile.column("score").median == 1.5


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "the file is empty"), (b"a,b\n", "it has none"), (b"\xff\xfe\x00", "text in UTF-8")],
)
def test_a_file_without_rows_is_an_error(content, message, tmp_path):
    path = tmp_path / "odd.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        profile_table(str(path))
