"""Rows are split into files to train on and to evaluate on."""

import dataclasses

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fleetrec.planning.hold_out import split_rows
from fleetrec.planning.table_profile import TableFormat

CSV = TableFormat(format="csv", columns=("ts", "x"))


def lines(path):
    return path.read_text().splitlines()


@pytest.mark.parametrize("end", ["\n", ""])
def test_lines_keep_their_bytes_and_order(end, tmp_path):
    rows = [f'{n},"text {n}"' for n in range(50)]
    (tmp_path / "all.csv").write_text("\n".join(["number,text", *rows]) + end)
    train, evaluate, num_train = split_rows(
        str(tmp_path / "all.csv"), tmp_path / "parts", CSV, time_column=None
    )
    trained, evaluated = lines(tmp_path / "parts" / train), lines(tmp_path / "parts" / evaluate)
    assert trained[0] == evaluated[0] == "number,text"
    assert (len(trained) - 1, len(evaluated) - 1) == (num_train, 5) == (45, 5)
    for part in (trained, evaluated):
        assert part[1:] == [row for row in rows if row in set(part)]
    assert set(trained[1:]) | set(evaluated[1:]) == set(rows)


@pytest.mark.parametrize("header", ["ts,x\n", ""])
def test_the_last_rows_by_time_are_held_out(header, tmp_path):
    times = [(7 * n) % 20 for n in range(20)]
    text = header + "".join(f"{time},{n}\n" for n, time in enumerate(times))
    (tmp_path / "all.csv").write_text(text)
    table = dataclasses.replace(CSV, has_header=bool(header))
    _, evaluate, _ = split_rows(str(tmp_path / "all.csv"), tmp_path, table, time_column="ts")
    rows = lines(tmp_path / evaluate)[bool(header) :]
    assert sorted(int(line.split(",")[0]) for line in rows) == [18, 19]


def test_parquet_is_split_over_its_row_groups(tmp_path):
    table = pa.table({"ts": list(range(100))})
    pq.write_table(table, tmp_path / "all.parquet", row_group_size=7)
    train, evaluate, num_train = split_rows(
        str(tmp_path / "all.parquet"),
        tmp_path / "parts",
        TableFormat(format="parquet"),
        time_column="ts",
    )
    assert num_train == 90
    assert pq.read_table(tmp_path / "parts" / train)["ts"].to_pylist() == list(range(90))
    assert pq.read_table(tmp_path / "parts" / evaluate)["ts"].to_pylist() == list(range(90, 100))
