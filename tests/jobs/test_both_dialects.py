"""Every verb takes a YAML job and a pipeline."""

import json

import pytest

from fleetrec.cli.check import check_job
from fleetrec.cli.data import show_head
from fleetrec.cli.eval import EvalRequest, evaluate_checkpoint
from fleetrec.cli.run import RunRequest, run_command
from fleetrec.cli.train_eval import TrainEvalRequest, train_and_evaluate
from fleetrec.core.errors import ConfigError
from making import make_data, make_job, write_job
from making_pipelines import MODELS, write_data, write_pipeline


@pytest.fixture
def pipeline(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = write_data(tmp_path, num_train=640, num_eval=100)
    return write_pipeline(tmp_path, MODELS["FM"], paths=paths, num_steps=8)


@pytest.fixture
def yaml_job(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job = make_job(make_data(tmp_path / "data", num_samples=320), epochs=2)
    return write_job(job, tmp_path / "config.yaml")


def test_run_trains_a_pipeline(pipeline, tmp_path):
    run_command(RunRequest(model=str(pipeline), overrides=["train_config.num_steps=6"]))
    model = tmp_path / "model"
    assert json.loads((model / "eval_result.txt").read_text())["global_step"] == 6
    for name in ("pipeline.config", "run.log", "metrics.jsonl", "report.html"):
        assert (model / name).is_file(), name
    with pytest.raises(ConfigError, match=r"model\.ckpt-6 of an earlier run"):
        run_command(RunRequest(model=str(pipeline)))
    run_command(RunRequest(model=str(pipeline)), resume=True)
    assert (model / "model.ckpt-8").is_dir()


def test_check_looks_at_the_data_of_a_pipeline(pipeline, tmp_path, capsys):
    check_job(str(pipeline), overrides=())
    printed = capsys.readouterr().out
    assert "runner train_eval: train, cpu, 8 steps, phases model" in printed
    assert printed.endswith("pipeline.config: ok\n")
    assert not (tmp_path / "model").exists()


def test_data_of_a_pipeline_is_shown(pipeline, capsys):
    show_head(None, config=str(pipeline), dataset=None, num_rows=1)
    assert "price" in capsys.readouterr().out


def test_train_eval_runs_a_yaml_job(yaml_job, tmp_path):
    request = TrainEvalRequest(source=str(yaml_job), overrides=["mode=[train, infer]"])
    train_and_evaluate(request, continue_train=False)
    assert (tmp_path / "ckpt/1/MANIFEST.json").is_file()
    assert (tmp_path / f"logs/{tmp_path.name}.infer/report.html").is_file()


def test_eval_runs_the_inference_runner_of_a_yaml_job(yaml_job, tmp_path, capsys):
    run_command(RunRequest(model=str(yaml_job)))
    evaluate_checkpoint(EvalRequest(source=str(yaml_job)))
    folder = tmp_path / f"logs/{tmp_path.name}.infer"
    last = json.loads((folder / "eval_result.txt").read_text())
    assert last["global_step"] == 20
    assert 0.5 < last["AUC"] <= 1
    request = EvalRequest(
        source=str(yaml_job), checkpoint=str(tmp_path / "ckpt/0"), result_name="first"
    )
    evaluate_checkpoint(request)
    first = json.loads((folder / "first").read_text())
    assert first["global_step"] == 10
    assert first["AUC"] != last["AUC"]


def test_flags_of_pipelines_are_refused_for_a_yaml_job(yaml_job):
    with pytest.raises(ConfigError, match=r"--model_dir: is for pipelines"):
        evaluate_checkpoint(EvalRequest(source=str(yaml_job), model_dir="elsewhere"))
