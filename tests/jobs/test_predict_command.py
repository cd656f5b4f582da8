"""``fleetrec predict`` of checkpoints and of inference models, also after kill -9."""

import csv
import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from fleetrec.cli.export import ExportRequest, export_model
from fleetrec.cli.predict import PredictRequest, predict_data
from fleetrec.cli.train_eval import TrainEvalRequest, train_and_evaluate
from fleetrec.core.env import environment_with
from fleetrec.core.errors import ConfigError, DataError
from fleetrec.export.predictor import Predictor
from making import make_data, make_job, run, write_job
from making_pipelines import COLUMNS, MODELS, write_data, write_pipeline

NUM_EVAL = 300


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A pipeline and a YAML job, trained and exported."""
    folder = tmp_path_factory.mktemp("trained")
    paths = write_data(folder, num_train=512, num_eval=NUM_EVAL)
    source = write_pipeline(folder, MODELS["DeepFM"], paths=paths, num_steps=20)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        train_and_evaluate(TrainEvalRequest(source=str(source)), continue_train=False)
        export_model(ExportRequest(checkpoint="model", out="exported"))
        data = make_data(folder / "data", num_samples=100)
        run(write_job(make_job(data, epochs=1), folder / "config.yaml"))
        export_model(ExportRequest(checkpoint="ckpt", out="exported_dnn"))
    return folder


@pytest.fixture(autouse=True)
def there(trained, monkeypatch):
    monkeypatch.chdir(trained)


def predict(model, data, out, **options):
    predict_data(PredictRequest(model=str(model), data=str(data), out=str(out), **options))
    return read(out)


def read(out):
    """Return the rows of the parts that the manifest names."""
    manifest = json.loads((Path(out) / "MANIFEST.json").read_text())
    rows = []
    for part in manifest["parts"]:
        path = Path(out) / part["name"]
        if path.suffix == ".parquet":
            found = pq.read_table(path).to_pylist()
        elif path.suffix == ".jsonl":
            found = [json.loads(line) for line in path.read_text().splitlines()]
        else:
            found = pa.csv.read_csv(path).to_pylist()
        assert len(found) == part["num_rows"]
        rows += found
    return rows


def probs(rows):
    return np.array([row["probs"] for row in rows])


def users():
    with Path("eval.csv").open() as stream:
        return [row[COLUMNS.index("user")] for row in csv.reader(stream)]


def test_a_checkpoint_and_its_export_predict_the_same_rows_in_order(tmp_path):
    ours = predict("model", "eval.csv", tmp_path / "a.parquet", keep="user,item")
    theirs = predict("exported", "eval.csv", tmp_path / "b.parquet", keep="user,item")
    assert [row["user"] for row in ours] == [row["user"] for row in theirs] == users()
    np.testing.assert_allclose(probs(ours), probs(theirs), atol=1e-5, rtol=0)
    assert len(set(probs(ours).tolist())) > 10


def test_every_format_holds_the_same_predictions(tmp_path):
    expected = probs(predict("exported", "eval.csv", tmp_path / "a.parquet"))
    for name in ("a.csv", "a.jsonl"):
        found = predict("exported", "eval.csv", tmp_path / name, rows_per_part=100, batch_size=50)
        np.testing.assert_allclose(probs(found), expected, atol=1e-6, rtol=0)
        assert len(list((tmp_path / name).glob("part-*"))) == 3


def test_slot_text_is_predicted_with_the_data_set_of_the_job(tmp_path):
    ours = predict("ckpt", "data", tmp_path / "a.parquet")
    theirs = predict("exported_dnn", "data", tmp_path / "b.parquet", source="config.yaml")
    assert len(ours) == len(theirs) == 100
    found, expected = ([row["predict"] for row in rows] for rows in (ours, theirs))
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)


def test_a_file_without_labels_and_with_other_columns_is_predicted(tmp_path):
    table = pa.csv.read_csv("eval.csv", read_options=pa.csv.ReadOptions(column_names=COLUMNS))
    rest = table.drop_columns(["label", "like", "score"])
    pq.write_table(rest.append_column("request", pa.array(range(NUM_EVAL))), tmp_path / "x.parquet")
    expected = probs(predict("model", "eval.csv", tmp_path / "a.parquet"))
    found = predict("exported", tmp_path / "x.parquet", tmp_path / "b.parquet", keep="all")
    assert [row["request"] for row in found] == list(range(NUM_EVAL))
    np.testing.assert_allclose(probs(found), expected, atol=1e-5, rtol=0)


def command(out, *options):
    words = [sys.executable, "-m", "fleetrec.predict", "exported", "eval.csv", str(out)]
    return [*words, "--rows-per-part", "40", "--batch_size", "20", "--keep", "user", *options]


@pytest.mark.parametrize("number", [1, 3])
def test_a_killed_run_continues_and_has_every_row_once(tmp_path, number):
    expected = predict("exported", "eval.csv", tmp_path / "whole.jsonl", keep="user")
    out = tmp_path / "out.jsonl"
    faults = tmp_path / "faults" / "process.0"
    faults.mkdir(parents=True)
    (faults / "predictions").write_text(f"{number} kill")
    environment = environment_with({"FLEETREC_FAULTS": str(faults.parent)}, unless_set={})
    done = subprocess.run(command(out), env=environment, check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert len(list(out.glob("part-*"))) == number  # the last one is not in the manifest
    done = subprocess.run(command(out), check=False, timeout=120, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if number > 1:
        assert f"continues after {40 * (number - 1)} rows" in done.stdout
    found = read(out)
    assert [row["user"] for row in found] == [row["user"] for row in expected]
    np.testing.assert_allclose(probs(found), probs(expected), atol=1e-6, rtol=0)
    names = {part.name for part in out.glob("part-*")}
    assert len(names) == NUM_EVAL // 40 + 1
    again = subprocess.run(command(out), check=False, timeout=120, capture_output=True, text=True)
    assert "complete already, 300 rows" in again.stdout


@pytest.mark.cold
def test_an_inference_model_predicts_without_torch(tmp_path):
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from fleetrec.cli.main import main\n"
        f"sys.argv = ['fleetrec', 'exported', 'eval.csv', {str(tmp_path / 'a.jsonl')!r}]\n"
        "main('predict')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    found = probs(read(tmp_path / "a.jsonl"))
    expected = probs(predict("model", "eval.csv", tmp_path / "b.jsonl"))
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)


def test_the_flags_of_easyrec(tmp_path):
    words = [sys.executable, "-m", "fleetrec.predict"]
    words += ["--pipeline_config_path", "pipeline.config", "--checkpoint_path", "model"]
    words += ["--input_path", "eval.csv", "--output_path", str(tmp_path / "a")]
    subprocess.run(words, check=True, timeout=120)
    rows = read(tmp_path / "a")
    assert list(rows[0]) == ["logits", "probs"]
    words = [sys.executable, "-m", "fleetrec.predict", "--saved_model_dir", "exported"]
    words += ["--input_path", "eval.csv", "--output_path", str(tmp_path / "b")]
    words += ["--output_cols", "probs double", "--reserved_cols", "user,label"]
    subprocess.run(words, check=True, timeout=120)
    lines = (tmp_path / "b" / "part-00000.csv").read_text().splitlines()
    assert lines[0].replace('"', "").split("\x01") == ["user", "label", "probs"]
    assert [line.split("\x01")[0].strip('"') for line in lines[1:]] == users()
    found = np.array([float(line.split("\x01")[2]) for line in lines[1:]])
    np.testing.assert_allclose(found, probs(rows), atol=1e-5, rtol=0)


def test_an_output_of_another_request_is_refused(tmp_path):
    predict("exported", "eval.csv", tmp_path / "a.parquet")
    with pytest.raises(ConfigError, match="holds predictions of another run; differs in keep"):
        predict("exported", "eval.csv", tmp_path / "a.parquet", keep="user")
    with pytest.raises(ConfigError, match="differs in data"):
        predict("exported", "train.csv", tmp_path / "a.parquet")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("precious")
    with pytest.raises(ConfigError, match="expected a new folder, or one of predictions"):
        predict("exported", "eval.csv", tmp_path / "other")


def test_wrong_names_are_refused_with_those_that_are_known(tmp_path):
    with pytest.raises(ConfigError, match="the data has no column 'usr'; it has label"):
        predict("exported", "eval.csv", tmp_path / "a.parquet", keep="usr")
    with pytest.raises(ConfigError, match="no output is called 'prob'; known: logits, probs"):
        predict("model", "eval.csv", tmp_path / "b.parquet", outputs="prob")
    with pytest.raises(ConfigError, match="the format slot_text has no columns"):
        predict("ckpt", "data", tmp_path / "c.parquet", keep="user")
    with pytest.raises(DataError, match="expected a CSV, Parquet or Arrow file"):
        predict("exported_dnn", "data", tmp_path / "d.parquet")
    with pytest.raises(ConfigError, match="OUT"):
        predict_data(PredictRequest(model="exported", data="eval.csv", out=None))


def test_a_bad_value_is_named_with_its_row(tmp_path):
    lines = Path("eval.csv").read_text().splitlines(keepends=True)
    lines[41] = lines[41].replace(lines[41].split(",")[7], "cheap")
    (tmp_path / "bad.csv").write_text("".join(lines))
    with pytest.raises(DataError, match=r"row 42 of the data: column 'price': 'cheap'"):
        predict("exported", tmp_path / "bad.csv", tmp_path / "a.parquet", batch_size=10)


def test_a_model_of_slot_text_takes_a_csv_of_text(tmp_path):
    lines = ["user,dense_feature,1,2,3", "ann,0.5|0.25,1,2|3,", "bob,0.5|0.5,4,,6"]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    found = predict("exported_dnn", tmp_path / "rows.csv", tmp_path / "a.jsonl", keep="user")
    feeds = {"dense_feature": np.array([[0.5, 0.25], [0.5, 0.5]]), "1": [[1], [4]]}
    feeds |= {"2": [[2, 3], [0]], "3": [[0], [6]]}
    expected = Predictor("exported_dnn").predict(feeds)["predict"].reshape(-1)
    assert [row["user"] for row in found] == ["ann", "bob"]
    np.testing.assert_allclose([row["predict"] for row in found], expected, atol=1e-6, rtol=0)
