"""``fleetrec table`` on the checkpoints of a real run."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

from fleetrec.cli.table import dump, show_difference, show_rows, show_stats
from fleetrec.core.errors import CheckpointError
from making import make_data, make_job, run, write_job

TABLE = "ckpt/1/learn/tables/SparseFeatFactors.safetensors"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two epochs of a table that keeps 30 rows of about 50."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        data = make_data(folder / "data", num_samples=100)
        job = make_job(data)
        options = ("hyper_parameters.distributed_embedding=1",)
        options += ("hyper_parameters.eviction={max_rows: 30}",)
        run(write_job(job, folder / "config.yaml"), *options)
    return folder


@pytest.fixture(autouse=True)
def there(trained, monkeypatch):
    monkeypatch.chdir(trained)


def test_stats_say_what_a_table_holds(capsys):
    show_stats(Path("ckpt/1"))
    printed = capsys.readouterr().out
    assert "learn/SparseFeatFactors: 30 rows of width 4, 0 ids waiting for admission" in printed
    shows = load_file(TABLE)["shows"]
    assert f"{shows.max():g}" in printed


def test_single_rows_are_printed(capsys):
    known = load_file(TABLE)
    first = int(known["ids"][0])
    show_rows(Path("ckpt/1"), [first, 2**64 - 1], table=None)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{first}: show {known['shows'][0]:g} click ")
    assert f"{known['rows'][0][0]:.6g}" in lines[0]
    assert lines[1] == f"{2**64 - 1}: no row"


def test_a_dump_holds_every_row(tmp_path):
    dump(Path("ckpt/1"), tmp_path / "rows.parquet", table="learn/SparseFeatFactors")
    written, known = pq.read_table(tmp_path / "rows.parquet"), load_file(TABLE)
    assert written.column_names == ["id", "vector", "show", "click", "last_seen"]
    assert written["id"].to_pylist() == known["ids"].view(np.uint64).tolist()
    assert written["vector"].to_pylist() == known["rows"].tolist()
    assert written["show"].to_pylist() == known["shows"].tolist()


def test_a_difference_counts_what_came_went_and_moved(capsys):
    show_difference(Path("ckpt/0"), Path("ckpt/1"))
    before, after = (load_file(TABLE.replace("ckpt/1", f"ckpt/{e}"))["ids"] for e in (0, 1))
    gone, new = np.setdiff1d(before, after), np.setdiff1d(after, before)
    printed = capsys.readouterr().out
    assert f"{len(gone)} rows only in ckpt/0, {len(new)} only in ckpt/1" in printed


def test_a_checkpoint_is_the_same_as_itself(capsys):
    show_difference(Path("ckpt/1"), Path("ckpt/1"))
    assert "0 of 30 common rows changed" in capsys.readouterr().out


def test_an_unknown_table_is_answered_with_those_there_are():
    with pytest.raises(CheckpointError, match="no table 'learn/x'; known: learn/SparseFeatFactors"):
        show_rows(Path("ckpt/1"), [1], table="learn/x")
