"""``fleetrec table`` on the checkpoints of a real run."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fleetrec.cli.table import dump, import_file, show_difference, show_rows, show_stats
from fleetrec.core.errors import CheckpointError, ConfigError, DataError
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.table import RowOptimizer, TableConfig
from making import columns_of, make_data, make_job, run, tables_of, write_job
from reference.fold_id import fold_id

TABLE = "learn/tables/SparseFeatFactors"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Three epochs of a table that keeps 30 rows of about 50; the last two are deltas."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        data = make_data(folder / "data", num_samples=100)
        job = make_job(data, epochs=3, save_checkpoint_base_interval=3)
        options = ("hyper_parameters.distributed_embedding=1",)
        options += ("hyper_parameters.eviction={max_rows: 30}",)
        run(write_job(job, folder / "config.yaml"), *options)
    return folder


@pytest.fixture(autouse=True)
def there(trained, monkeypatch):
    monkeypatch.chdir(trained)


def columns(checkpoint="ckpt/1"):
    ((_, _, stored),) = tables_of(Path(checkpoint))
    return columns_of(stored)


@pytest.mark.parametrize("epoch", [0, 1, 2])
def test_stats_say_what_a_table_holds(capsys, epoch):
    show_stats(Path(f"ckpt/{epoch}"))
    printed = capsys.readouterr().out
    known = columns(f"ckpt/{epoch}")
    created, evicted = known["counts"].tolist()
    assert created - evicted == 30
    assert "learn/SparseFeatFactors: 30 rows of width 4, 0 ids waiting for admission" in printed
    assert f"{created} rows made, {evicted} evicted" in printed
    assert f"{known['shows'].max():g}" in printed
    top = known["ids"][np.lexsort((known["ids"], -known["shows"]))[0]]
    assert f"\n{top} " in printed


def test_stats_show_no_clicks_where_none_are_counted(capsys):
    show_stats(Path("ckpt/2"))
    printed = capsys.readouterr().out
    assert "no clicks were counted: a table counts them if admission is by score" in printed
    rows = [line.split() for line in printed.splitlines()]
    assert ["click", "-", "-", "-", "-", "-", "-"] in rows
    top = rows[rows.index(["id", "show", "click", "norm"]) + 1 :][:10]
    assert {row[2] for row in top} == {"-"}


def test_stats_show_clicks_where_they_are_counted(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job = make_job(make_data(tmp_path / "data", num_samples=100), epochs=1)
    options = ("hyper_parameters.distributed_embedding=1",)
    options += ("hyper_parameters.eviction={min_score: 0.01, decay: 0.9}",)
    run(write_job(job, tmp_path / "config.yaml"), *options)
    show_stats(Path("ckpt/0"))
    printed = capsys.readouterr().out
    assert "no clicks were counted" not in printed
    ((_, _, stored),) = tables_of(Path("ckpt/0"))
    most = columns_of(stored)["clicks"].max()
    assert most > 0
    (line,) = (line for line in printed.splitlines() if line.split()[:1] == ["click"])
    assert line.split()[-1] == f"{most:.4g}"


def test_histograms_count_every_row_once(capsys):
    show_stats(Path("ckpt/2"))
    lines = capsys.readouterr().out.splitlines()
    heads = ("norm from", "show from", "id ")
    norm, show, top = (
        next(i for i, line in enumerate(lines) if line.lstrip().startswith(head)) for head in heads
    )
    for bins in (lines[norm + 1 : show], lines[show + 1 : top]):
        assert sum(int(line.split()[1]) for line in bins) == 30


def test_stats_of_a_bare_folder_of_a_table(capsys):
    show_stats(Path("ckpt/0") / TABLE)
    printed = capsys.readouterr().out
    assert "SparseFeatFactors: 30 rows of width 4" in printed
    assert "created and evicted rows unknown" in printed


def make_bare_table(folder, rows):
    store = NativeStore(TableConfig(name="t", dim=1), RowOptimizer(name="sgd"), seed=0)
    weights = np.array(rows, np.float32).reshape(-1, 1)
    store.table.add_rows(ids=np.arange(len(rows)), rows=weights)
    store.write(folder, parent=None)
    return folder


def test_rows_that_are_not_finite_are_counted(tmp_path, capsys):
    show_stats(make_bare_table(tmp_path / "t", [1, np.nan, np.inf, 3]))
    printed = capsys.readouterr().out
    assert "t: 4 rows of width 1" in printed
    assert "2 rows hold numbers that are not finite" in printed


@pytest.mark.parametrize("rows", [[], [np.nan], [2]])
def test_tables_with_next_to_nothing_have_figures_too(tmp_path, capsys, rows):
    show_stats(make_bare_table(tmp_path / "t", rows))
    assert f"t: {len(rows)} rows of width 1" in capsys.readouterr().out


def test_a_delta_alone_is_no_table():
    with pytest.raises(CheckpointError, match="is a delta, which is no table by itself"):
        show_stats(Path("ckpt/1") / TABLE)


def test_a_folder_of_something_else_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="no checkpoint"):
        show_stats(tmp_path)


def test_single_rows_are_printed(capsys):
    known = columns()
    first = int(known["ids"][0])
    show_rows(Path("ckpt/1"), [first, 2**64 - 1], table=None)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{first}: show {known['shows'][0]:g} click ")
    assert f"{known['rows'][0][0]:.6g}" in lines[0]
    assert lines[1] == f"{2**64 - 1}: no row"


def test_ids_that_were_hashed_are_found(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job = make_job(make_data(tmp_path / "data", num_samples=100), epochs=1)
    options = ("hyper_parameters.hash_ids=1", "hyper_parameters.sparse_feature_number=7")
    run(write_job(job, tmp_path / "config.yaml"), *options)
    capsys.readouterr()
    show_rows(Path("ckpt/0"), [3, 48, fold_id(48, 7)], table=None)
    own, hashed, under = capsys.readouterr().out.splitlines()
    assert own.startswith("3: show ")
    assert hashed.partition(": ")[2] == under.partition(": ")[2]


def test_a_dump_holds_every_row(tmp_path):
    dump(Path("ckpt/1"), tmp_path / "rows.parquet", table="learn/SparseFeatFactors")
    written, known = pq.read_table(tmp_path / "rows.parquet").sort_by("id"), columns()
    assert written.column_names == ["id", "vector", "show", "click", "last_seen"]
    assert written["id"].to_pylist() == known["ids"].tolist()
    assert written["vector"].to_pylist() == known["rows"].tolist()
    assert written["show"].to_pylist() == known["shows"].tolist()


def test_a_difference_counts_what_came_went_and_moved(capsys):
    show_difference(Path("ckpt/0"), Path("ckpt/1"))
    before, after = (columns(f"ckpt/{epoch}")["ids"] for epoch in (0, 1))
    gone, new = np.setdiff1d(before, after), np.setdiff1d(after, before)
    printed = capsys.readouterr().out
    assert f"{len(gone)} rows only in ckpt/0, {len(new)} only in ckpt/1" in printed


def test_a_checkpoint_is_the_same_as_itself(capsys):
    show_difference(Path("ckpt/1"), Path("ckpt/1"))
    assert "0 of 30 common rows changed" in capsys.readouterr().out


def test_an_unknown_table_is_answered_with_those_there_are():
    with pytest.raises(CheckpointError, match="no table 'learn/x'; known: learn/SparseFeatFactors"):
        show_rows(Path("ckpt/1"), [1], table="learn/x")


def dumped(checkpoint, tmp_path):
    dump(Path(checkpoint), tmp_path / "rows.parquet", table=None)
    return tmp_path / "rows.parquet"


def test_dumped_rows_that_are_imported_are_the_same(tmp_path, capsys):
    import_file(dumped("ckpt/2", tmp_path), tmp_path / "new", table="SparseFeatFactors")
    assert "30 rows of table SparseFeatFactors" in capsys.readouterr().out
    want, got = columns("ckpt/2"), columns(tmp_path / "new")
    for name in ("ids", "rows", "shows", "clicks", "last_seen"):
        assert np.array_equal(want[name], got[name]), name
    show_difference(Path("ckpt/2"), tmp_path / "new")
    assert "0 of 30 common rows changed" in capsys.readouterr().out


def test_an_arrow_file_is_imported_too(tmp_path):
    rows = pq.read_table(dumped("ckpt/2", tmp_path))
    with pa.ipc.new_file(tmp_path / "rows.arrow", rows.schema) as writer:
        writer.write_table(rows)
    import_file(tmp_path / "rows.arrow", tmp_path / "new", table="SparseFeatFactors")
    assert np.array_equal(columns("ckpt/2")["rows"], columns(tmp_path / "new")["rows"])


@pytest.mark.parametrize("growing", [0, 1])
def test_a_run_starts_from_imported_rows(tmp_path, growing):
    import_file(dumped("ckpt/2", tmp_path), tmp_path / "new", table="SparseFeatFactors")
    want = {i: row for i, row in zip(*(columns("ckpt/2")[n] for n in ("ids", "rows")), strict=True)}
    run(
        "config.yaml",
        "mode=train",
        f"hyper_parameters.distributed_embedding={growing}",
        "runner.train.epochs=1",
        f"runner.train.init_pretraining_model_path={tmp_path / 'new'}",
        "runner.train.finetuning_aspect_varnames=[SparseFeatFactors]",
        f"runner.train.save_checkpoint_path={tmp_path / 'tuned'}",
    )
    tuned = columns(tmp_path / "tuned/0")
    got = dict(zip(tuned["ids"], tuned["rows"], strict=True))
    assert got.keys() == want.keys()  # a frozen table gets no new rows
    assert all(np.array_equal(got[i], row) for i, row in want.items())


def test_imported_rows_alone_are_no_model(tmp_path):
    import_file(dumped("ckpt/2", tmp_path), tmp_path / "new", table="SparseFeatFactors")
    with pytest.raises(CheckpointError, match="has no weights of a model; name the tables"):
        run("config.yaml", "mode=train", f"runner.train.init_model_path={tmp_path / 'new'}")


def write_rows(path, **columns):
    good = {"id": [1, 2], "vector": [[0.0, 1.0], [2.0, 3.0]]}
    wanted = {name: column for name, column in (good | columns).items() if column is not None}
    pq.write_table(pa.table(wanted), path)
    return path


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": None}, "lacks id; expected the columns id, vector and optionally show, click"),
        ({"weight": [1, 2]}, "has unknown weight"),
        ({"id": ["a", "b"]}, "column 'id' must hold integers, it holds string"),
        ({"id": [1, None]}, "column 'id' holds 1 nulls"),
        ({"id": [7, 7]}, "id 7 occurs twice"),
        ({"vector": [1.0, 2.0]}, "column 'vector' must hold lists of floats, it holds double"),
        ({"vector": [[1.0], [1.0, 2.0]]}, r"must be equally wide, got \[1, 2\]"),
        ({"vector": [[1.0], [float("nan")]]}, "column 'vector' must hold finite numbers"),
        ({"vector": [[1.0], [None]]}, "column 'vector' must hold finite numbers"),
        ({"vector": [[1.0], None]}, "column 'vector' holds 1 nulls"),
        ({"show": [1, -1]}, "column 'show' must hold finite numbers from 0 on"),
        ({"last_seen": [1, 2**32]}, "column 'last_seen' must hold seconds from 0"),
    ],
)
def test_rows_that_make_no_sense_are_refused(tmp_path, columns, message):
    source = write_rows(tmp_path / "rows.parquet", **columns)
    with pytest.raises(DataError, match=rf"rows.parquet: .*{message}"):
        import_file(source, tmp_path / "new", table="t")
    assert not (tmp_path / "new").exists()


def test_a_table_needs_a_name_that_can_be_one(tmp_path):
    with pytest.raises(DataError, match="--table: a table name is letters"):
        import_file(write_rows(tmp_path / "rows.parquet"), tmp_path / "new", table="a/b")


def test_a_file_of_something_else_is_not_imported(tmp_path):
    (tmp_path / "rows.txt").write_text("1 2 3")
    with pytest.raises(DataError, match=r"rows.txt: neither Parquet nor Arrow"):
        import_file(tmp_path / "rows.txt", tmp_path / "new", table="t")
    with pytest.raises(DataError, match=r"none.parquet: no such file"):
        import_file(tmp_path / "none.parquet", tmp_path / "new", table="t")


def test_an_import_replaces_nothing(tmp_path):
    source = write_rows(tmp_path / "rows.parquet")
    with pytest.raises(CheckpointError, match="exists already"):
        import_file(source, Path("ckpt"), table="t")


def test_several_tables_have_to_be_told_apart(tmp_path):
    manifest = json.loads(Path("ckpt/0/MANIFEST.json").read_text())
    tables = manifest["tables"]["learn"]
    tables["other"] = tables["SparseFeatFactors"]
    shutil.copytree("ckpt/0", tmp_path / "two")
    shutil.copytree(tmp_path / "two" / TABLE, tmp_path / "two/learn/tables/other")
    (tmp_path / "two/MANIFEST.json").write_text(json.dumps(manifest))
    with pytest.raises(ConfigError, match="--table: learn/SparseFeatFactors, learn/other"):
        show_rows(tmp_path / "two", [1], table=None)
    with pytest.raises(CheckpointError, match="holds the tables learn/SparseFeatFactors; "):
        show_difference(Path("ckpt/0"), tmp_path / "two")
