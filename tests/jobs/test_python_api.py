"""``fleetrec.train``, ``evaluate``, ``predict`` and ``export``: jobs from Python."""

import math
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pytest

import fleetrec
from fleetrec.core.errors import ConfigError, DataError
from making import make_data, make_job, write_job
from making_pipelines import COLUMNS, MODELS, write_data, write_pipeline


@pytest.fixture
def yaml_job(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    job = make_job(make_data(tmp_path / "data", num_samples=320), epochs=2)
    return write_job(job, tmp_path / "config.yaml")


@pytest.fixture
def pipeline(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    paths = write_data(tmp_path, num_train=640, num_eval=100)
    return write_pipeline(tmp_path, MODELS["FM"], paths=paths, num_steps=8)


def eval_rows(folder: Path) -> pa.Table:
    options = pc.ReadOptions(column_names=COLUMNS)
    return pc.read_csv(folder / "eval.csv", read_options=options)


def test_training_returns_metrics_and_outputs(yaml_job, tmp_path, capsys):
    result = fleetrec.train(yaml_job, overrides={"mode": ["train", "infer"]}, quiet=True)
    assert capsys.readouterr().out == ""
    assert [(run.name, run.kind, len(run.passes)) for run in result.runs] == [
        ("train", "train", 2),
        ("infer", "infer", 2),
    ]
    assert result.checkpoint is not None
    assert Path(result.checkpoint).resolve() == tmp_path / "ckpt/1"
    assert Path(result.report).is_file()
    assert Path(result.runs[0].log).read_text(encoding="utf-8")
    assert 0.5 < result.metrics["AUC"] <= 1
    assert result.metrics == result.runs[1].metrics
    again = fleetrec.evaluate(yaml_job, checkpoint=result.checkpoint, quiet=True)
    for name, value in result.metrics.items():
        assert again[name] == value or math.isnan(value)


def test_a_resumed_run_continues(yaml_job):
    fleetrec.train(yaml_job, overrides={"runner.train.epochs": 1}, quiet=True)
    (run,) = fleetrec.train(yaml_job, resume=True, quiet=True).runs
    assert [record["epoch"] for record in run.passes] == ["0", "1"]


def test_a_pipeline_is_trained_exported_and_answers_rows(pipeline, tmp_path):
    result = fleetrec.train(pipeline, quiet=True)
    assert result.checkpoint is not None
    model = fleetrec.export(result.checkpoint, tmp_path / "exported")
    rows = eval_rows(tmp_path)
    from_columns = fleetrec.predict(model, rows, keep=[rows.column_names[0]])
    assert from_columns.num_rows == rows.num_rows
    assert from_columns.column(0).equals(rows.column(0))
    from_file = fleetrec.predict(result.checkpoint, str(tmp_path / "eval.csv"))
    for name in from_file.column_names:
        mine, theirs = from_columns[name].to_pylist(), from_file[name].to_pylist()
        assert mine == pytest.approx(theirs, abs=1e-5)


def test_a_data_frame_gives_a_data_frame(pipeline, tmp_path):
    pandas = pytest.importorskip("pandas")
    checkpoint = fleetrec.train(pipeline, quiet=True).checkpoint
    rows = pandas.read_csv(tmp_path / "eval.csv", names=COLUMNS).iloc[10:14]
    found = fleetrec.predict(fleetrec.export(checkpoint, tmp_path / "exported"), rows)
    assert list(found.index) == list(rows.index)


def test_mistakes_are_errors_of_fleetrec(yaml_job, tmp_path):
    with pytest.raises(ConfigError, match=r"epochz: unknown key; did you mean 'epochs'"):
        fleetrec.train(yaml_job, overrides={"runner.train.epochz": 1})
    with pytest.raises(DataError, match="no such file or folder"):
        fleetrec.predict("anywhere", tmp_path / "*.nothing")


def test_a_job_runs_in_another_thread(yaml_job):
    results = []
    thread = threading.Thread(target=lambda: results.append(fleetrec.train(yaml_job, quiet=True)))
    thread.start()
    thread.join()
    assert len(results) == 1


def test_importing_the_package_is_light_and_its_subpackages_do_not_hide_functions():
    code = (
        "import fleetrec, sys\n"
        "assert not {'torch', 'numpy', 'pyarrow'} & set(sys.modules)\n"
        "import fleetrec.train.records, fleetrec.export.manifest\n"
        "assert callable(fleetrec.train) and callable(fleetrec.export)\n"
        "assert fleetrec.train.records.read_records\n"
        "try:\n"
        "    fleetrec.export()\n"
        "except TypeError as error:\n"
        "    assert 'export() missing 2 required' in str(error), error\n"
        "else:\n"
        "    raise AssertionError\n"
        "assert not hasattr(fleetrec, 'nothing')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_columns_may_be_lists_or_a_record_batch(pipeline, tmp_path):
    checkpoint = fleetrec.train(pipeline, quiet=True).checkpoint
    model = fleetrec.export(checkpoint, tmp_path / "exported")
    table = eval_rows(tmp_path).slice(0, 3)
    whole = fleetrec.predict(model, table)
    assert fleetrec.predict(model, table.to_pydict()).equals(whole)
    assert fleetrec.predict(model, table.combine_chunks().to_batches()[0]).equals(whole)
    assert isinstance(whole, pa.Table)
