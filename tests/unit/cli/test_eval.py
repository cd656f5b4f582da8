"""``fleetrec eval`` of a YAML job whose training runner has evaluation data of its own."""

import json

import pytest

from fleetrec.cli.eval import EvalRequest, evaluate_checkpoint
from fleetrec.cli.run import RunRequest, run_command
from fleetrec.core.errors import CheckpointError, ConfigError
from making import make_data, make_job, write_job


def make_config(tmp_path, **runner):
    job = make_job(make_data(tmp_path / "data", num_samples=96, num_files=1), epochs=1, **runner)
    other = make_data(tmp_path / "other", num_samples=40, num_files=1, seed=1)
    job["dataset"].append({**job["dataset"][0], "name": "other", "data_path": str(other)})
    job["runner"] = job["runner"][:1]  # no runner of class infer
    return write_job(job, tmp_path / "config.yaml")


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return make_config(tmp_path, eval_dataset="other", eval_interval={"epochs": 1})


def evaluate(config, *overrides):
    evaluate_checkpoint(EvalRequest(source=str(config), overrides=overrides))
    (result,) = config.parent.glob("logs/*/eval_result.txt")
    return json.loads(result.read_text())


def last_evaluation(tmp_path):
    """Return the metrics of the last evaluation of the training."""
    (path,) = tmp_path.glob("logs/*/metrics.jsonl")
    events = [json.loads(line) for line in path.read_text().splitlines()]
    return [one["metrics"] for one in events if one.get("phase") == "eval"][-1]


def test_eval_repeats_the_last_evaluation_of_a_training(config, tmp_path):
    run_command(RunRequest(model=str(config)))
    trained = last_evaluation(tmp_path)
    found = evaluate(config)
    assert found["global_step"] == 3
    assert found["SAMPLES"] == 40
    assert {name: found[name] for name in ("AUC", "LOGLOSS")} == pytest.approx(
        {name: trained[name] for name in ("AUC", "LOGLOSS")}
    )


def test_eval_leaves_the_training_as_it_was_so_that_it_can_be_resumed(config, tmp_path):
    run_command(RunRequest(model=str(config)))
    (folder,) = (tmp_path / "logs").iterdir()
    names = ("run.json", "run.log", "metrics.jsonl")
    before = {name: (folder / name).read_bytes() for name in names}
    evaluate(config)
    assert {name: (folder / name).read_bytes() for name in names} == before
    run_command(RunRequest(model=str(config), overrides=["runner.train.epochs=2"]), resume=True)
    assert "resumed from ckpt/0" in (folder / "run.log").read_text()


def test_eval_takes_what_a_training_has_saved_and_not_what_it_started_from(config, tmp_path):
    run_command(RunRequest(model=str(config)))
    second = ["runner.train.save_checkpoint_path=tuned", "runner.train.epochs=2"]
    second.append("runner.train.init_model_path=ckpt/0")
    run_command(RunRequest(model=str(config), overrides=second))
    assert evaluate(config, *second)["global_step"] == 6


def test_eval_of_a_training_that_has_saved_nothing_asks_for_a_checkpoint(config):
    with pytest.raises(CheckpointError, match=r"no checkpoint in .*ckpt.*give --checkpoint_path"):
        evaluate(config)


def test_a_job_without_evaluation_data_has_nothing_to_evaluate(tmp_path):
    config = make_config(tmp_path)
    with pytest.raises(ConfigError, match="nothing to evaluate: expected a runner of class infer"):
        evaluate_checkpoint(EvalRequest(source=str(config)))
