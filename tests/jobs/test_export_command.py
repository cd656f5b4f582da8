"""``fleetrec export`` of checkpoints of both dialects."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from fleetrec.cli.export import ExportRequest, export_model
from fleetrec.cli.train_eval import TrainEvalRequest, train_and_evaluate
from fleetrec.core.errors import CheckpointError, ConfigError
from fleetrec.export.predictor import Predictor
from making import make_data, make_job, run, write_job
from making_pipelines import MODELS, write_data, write_pipeline
from making_serving import ServingRun

FEEDS = {"dense_feature": np.full((2, 2), 0.5), "1": [[1], [2]], "2": [[3], [4]], "3": [[5], [6]]}


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A YAML job that was trained, and that has saved an inference model, too."""
    monkeypatch.chdir(tmp_path)
    data = make_data(tmp_path / "data", num_samples=100)
    path = write_job(make_job(data, epochs=2, save_inference_path="saved"), Path("config.yaml"))
    run(path)
    return path


def test_an_export_answers_as_the_model_that_the_run_has_saved(job):
    export_model(ExportRequest(checkpoint="ckpt/1", out="exported"))
    exported, saved = Predictor("exported"), Predictor("saved/1")
    assert exported.feeds == saved.feeds
    assert exported.num_rows == saved.num_rows
    for name, value in saved.predict(FEEDS).items():
        np.testing.assert_allclose(exported.predict(FEEDS)[name], value, atol=1e-6, rtol=0)
    found = exported.predict_raw({"1": [1], "2": [[3, 4]]}, ["predict"])
    assert found["predict"].shape[0] == 1


def test_tables_are_folded_on_request_of_the_command_or_the_job(job):
    assert not Path("saved/1/folded.onnx").exists()
    export_model(ExportRequest(checkpoint="ckpt/1", out="exported", fold_mib=1))
    overrides = ["runner.train.save_inference_fold_tables=1"]
    export_model(
        ExportRequest(checkpoint="ckpt/1", out="other", source="config.yaml", overrides=overrides)
    )
    folded = [Path(name, "folded.onnx").read_bytes() for name in ("exported", "other")]
    session = onnxruntime.InferenceSession(folded[0])
    feeds = {"dense_feature": FEEDS["dense_feature"].astype(np.float32)}
    for slot in ("1", "2", "3"):
        feeds |= {slot: np.array(FEEDS[slot]), f"{slot}.lengths": np.array([1, 1])}
    expected = Predictor("saved/1").predict(FEEDS, ["predict"])["predict"]
    np.testing.assert_allclose(session.run(["predict"], feeds)[0], expected, atol=1e-6, rtol=0)
    assert len(folded[1]) == len(folded[0])


def test_the_newest_checkpoint_of_a_folder_is_exported(job):
    export_model(ExportRequest(checkpoint="ckpt", out="exported"))
    manifest = json.loads(Path("exported/MANIFEST.json").read_text())
    assert manifest["version"]["id"] == 8
    one, two = Predictor("exported"), Predictor("saved/1")
    np.testing.assert_allclose(
        one.predict(FEEDS)["predict"], two.predict(FEEDS)["predict"], atol=1e-6, rtol=0
    )


def test_the_data_may_be_gone_and_a_job_may_be_given(job):
    shutil.rmtree("data")
    export_model(ExportRequest(checkpoint="ckpt/1", out="exported"))
    feeds = '["dense_feature", "1", "2", "3"]'
    overrides = [f"runner.train.save_inference_feed_varnames={feeds}"]
    overrides.append("runner.train.save_inference_fetch_varnames=[predict]")
    Path("data").mkdir()
    Path("data/part-0").write_text("click:1 1:2\n")
    request = ExportRequest(
        checkpoint="ckpt/1", out="other", source="config.yaml", overrides=overrides
    )
    export_model(request)
    assert Predictor("other").fetches == ["predict"]
    np.testing.assert_array_equal(
        Predictor("other").predict(FEEDS)["predict"],
        Predictor("exported").predict(FEEDS)["predict"],
    )


def test_a_checkpoint_of_deltas_is_exported_whole(tmp_path):
    serving = ServingRun(tmp_path)
    for _ in range(4):
        serving.make_version()
    manifest = json.loads((tmp_path / "checkpoint-4" / "MANIFEST.json").read_text())
    (record,) = manifest["tables"]["learn"].values()
    assert record["parent"] is not None
    export_model(
        ExportRequest(checkpoint=str(tmp_path / "checkpoint-4"), out=str(tmp_path / "exported"))
    )
    predictor = Predictor(tmp_path / "exported")
    assert predictor.num_rows == len(serving.live_ids())
    serving.assert_answers(predictor)


def test_the_flags_of_easyrec(tmp_path):
    paths = write_data(tmp_path, num_train=128, num_eval=64)
    source = write_pipeline(tmp_path, MODELS["DeepFM"], paths=paths, num_steps=2)
    train_and_evaluate(TrainEvalRequest(source=str(source)), continue_train=False)
    (tmp_path / "fg.json").write_text("{}")
    words = [sys.executable, "-m", "fleetrec.export", "--pipeline_config_path", str(source)]
    words += ["--export_dir", str(tmp_path / "export"), "--export_done_file", "done"]
    words += ["--asset_files", f"rules/fg.json:{tmp_path / 'fg.json'}", "--clear_export"]
    for _ in range(2):
        subprocess.run(words, check=True, timeout=300)
    (model,) = [path for path in (tmp_path / "export").iterdir() if path.is_dir()]
    assert model.name.isdecimal()
    assert (model / "assets" / "pipeline.config").read_text() == source.read_text()
    assert (model / "assets" / "rules" / "fg.json").read_text() == "{}"
    assert (tmp_path / "export" / "done").exists()
    assert Predictor(model).fetches == ["logits", "probs"]


def test_what_is_not_supported_or_missing_is_refused(job):
    with pytest.raises(ConfigError, match=r"--redis_\*: rows are not exported to redis"):
        export_model(ExportRequest(checkpoint="ckpt/1", out="x", refused=("redis",)))
    with pytest.raises(ConfigError, match="expected a folder for the model, or --export_dir"):
        export_model(ExportRequest(checkpoint="ckpt/1"))
    with pytest.raises(ConfigError, match="--clear_export: is for --export_dir"):
        export_model(ExportRequest(checkpoint="ckpt/1", out="x", clear_export=True))
    with pytest.raises(ConfigError, match="lies outside the folder of assets"):
        export_model(ExportRequest(checkpoint="ckpt/1", out="x", asset_files="../a:config.yaml"))
    with pytest.raises(ConfigError, match=r"--asset_files: .*gone"):
        export_model(ExportRequest(checkpoint="ckpt/1", out="x", asset_files="gone"))
    with pytest.raises(ConfigError, match=r"two files are called 'config.yaml'"):
        export_model(
            ExportRequest(checkpoint="ckpt/1", out="x", asset_files="config.yaml,config.yaml")
        )
    with pytest.raises(ConfigError, match="-o: changes keys of a job"):
        export_model(ExportRequest(checkpoint="ckpt/1", out="x", overrides=["mode=train"]))
    with pytest.raises(CheckpointError, match="no such checkpoint"):
        export_model(ExportRequest(checkpoint="nowhere", out="x"))
    assert not Path("x").exists()


@pytest.mark.parametrize("kind", ["final", "latest", "best"])
def test_a_pipeline_exports_while_it_trains(tmp_path, kind):
    paths = write_data(tmp_path, num_train=512, num_eval=128)
    source = write_pipeline(tmp_path, MODELS["DeepFM"], paths=paths, num_steps=6)
    text = source.read_text().replace("save_checkpoints_steps: 100", "save_checkpoints_steps: 2")
    (tmp_path / "fg.json").write_text("{}")
    more = f'asset_files: "{tmp_path / "fg.json"}" fold_tables: 1'
    config = f'exporter_type: "{kind}" exports_to_keep: 2 {more}'
    source.write_text(f"{text}export_config {{ {config} }}")
    train_and_evaluate(TrainEvalRequest(source=str(source)), continue_train=False)
    found = sorted(int(path.name) for path in (tmp_path / "model" / "export" / kind).iterdir())
    if kind == "best":
        scores = [one["metrics"]["auc"] for one in evaluations(tmp_path / "model")]
        best = [2 * (i + 1) for i, score in enumerate(scores) if score > max([0.0, *scores[:i]])]
        assert found == best[-2:]
    else:
        assert found == {"final": [6], "latest": [4, 6]}[kind]
    columns = {"user": ["u1"], "item": [3], "city": ["rome"], "tags": ["t1:0.5|t2:0.1"]}
    model = tmp_path / "model" / "export" / kind / str(found[-1])
    assert (model / "assets" / "fg.json").read_text() == "{}"
    assert (model / "folded.onnx").exists()
    predictor = Predictor(model)
    answer = predictor.predict_raw({**columns, "price": [0.5], "history": ["1|2"]})
    assert 0 < answer["probs"][0] < 1


def evaluations(folder):
    events = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [one for one in events if one.get("phase") == "eval"]


@pytest.mark.parametrize(("rows", "tolerance"), [("float16", 1e-3), ("int8", 0.03)])
def test_smaller_rows_answer_nearly_the_same(job, rows, tolerance):
    overrides = [
        "runner.train.save_inference_path=small",
        f"runner.train.save_inference_rows={rows}",
    ]
    run(job, *overrides)
    export_model(ExportRequest(checkpoint="ckpt/1", out="exported", rows=rows))
    whole = Predictor("saved/1").predict(FEEDS)["predict"]
    for folder in ("exported", "small/1"):
        predictor = Predictor(folder)
        assert {table.row_type for table in predictor.manifest.tables.values()} == {rows}
        np.testing.assert_allclose(
            predictor.predict(FEEDS)["predict"], whole, atol=tolerance, rtol=0
        )
    with pytest.raises(ConfigError, match="--rows: expected float32, float16, int8, got 'int4'"):
        export_model(ExportRequest(checkpoint="ckpt/1", out="x", rows="int4"))
