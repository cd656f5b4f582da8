"""Everything that a run leaves behind, at URLs instead of paths."""

import dataclasses
import json
from pathlib import Path

import pytest

from fleetrec.checkpoint.folder import published_names
from fleetrec.cli.eval import EvalRequest, evaluate_checkpoint
from fleetrec.cli.train_eval import TrainEvalRequest, train_and_evaluate
from fleetrec.config.pipeline_dialect.saving import EVAL_RESULT
from fleetrec.core import storage
from fleetrec.core.errors import ConfigError
from making_pipelines import WIDE_AND_DEEP, model_config, write_data, write_pipeline
from storing_runs import RunContract

PLACE = "memory://test-url-runs/place"


@pytest.fixture
def place():
    yield PLACE
    storage.delete(storage.parent_of(PLACE))


class TestRuns(RunContract):
    """Over ``place``."""


def test_the_model_folder_of_a_pipeline_may_be_a_url(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    network = "wide_and_deep { dnn { hidden_units: [4] use_bn: false } }"
    paths = write_data(tmp_path, num_train=640, num_eval=200)
    pipeline = write_pipeline(
        tmp_path,
        model_config("WideAndDeep", network, groups=WIDE_AND_DEEP),
        paths=paths,
        num_steps=12,
    )
    edits = ["--train_config.save_checkpoints_steps=4", "--train_config.keep_checkpoint_max=2"]
    request = TrainEvalRequest(source=str(pipeline), model_dir=place, arguments=edits)
    train_and_evaluate(request, continue_train=False)
    assert published_names(place) == ["model.ckpt-12", "model.ckpt-8"]
    result = json.loads(storage.read_bytes(storage.join(place, EVAL_RESULT)))
    assert result["global_step"] == 12
    assert b"<!doctype html>" in storage.read_bytes(storage.join(place, "report.html"))
    assert Path("logs/test-url-runs.place/run.log").is_file()
    with pytest.raises(ConfigError, match=r"holds model\.ckpt-12 of an earlier run"):
        train_and_evaluate(request, continue_train=False)
    longer = dataclasses.replace(request, arguments=[*edits, "--train_config.num_steps=16"])
    train_and_evaluate(longer, continue_train=True)
    assert published_names(place) == ["model.ckpt-12", "model.ckpt-16"]
    evaluate_checkpoint(EvalRequest(source=None, model_dir=place, result_name="again.txt"))
    again = json.loads(storage.read_bytes(storage.join(place, "again.txt")))
    assert again == json.loads(storage.read_bytes(storage.join(place, EVAL_RESULT)))
