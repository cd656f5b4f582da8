import json

import pytest

from fleetrec.cli.train_eval import Request, evaluate_checkpoint, train_and_evaluate
from making_pipelines import MODELS, write_data, write_pipeline

MIN_AUC = 0.78  # of what was planted; who knows every taste gets 0.86


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    return {
        kind: write_data(tmp_path_factory.mktemp("data"), kind=kind) for kind in ("csv", "parquet")
    }


def train(path, *, continue_train=False, **request):
    train_and_evaluate(Request(path=path, **request), continue_train=continue_train)


def result(folder):
    return json.loads((folder / "model" / "eval_result.txt").read_text())


def pipeline_of(folder, model, data, *, kind="csv", **changes):
    if model == "MMoE":
        changes = {"labels": '["label", "like", "score"]', "eval_config": "", **changes}
    return write_pipeline(folder, MODELS[model], paths=data[kind], **changes)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("model", sorted(MODELS))
def test_a_pipeline_learns_what_was_planted(tmp_path, model, kind, data):
    train(pipeline_of(tmp_path, model, data, kind=kind))
    found = result(tmp_path)
    assert found["auc_ctr" if model == "MMoE" else "auc"] > MIN_AUC
    assert found["global_step"] == 200
    if model == "MMoE":
        assert found["auc_like"] > 0.85
        assert found["gauc_ctr"] > 0.7
        assert found["mean_absolute_error_score"] < 1.5
    names = sorted(path.name for path in (tmp_path / "model").glob("model.ckpt-*"))
    assert names == ["model.ckpt-0", "model.ckpt-100", "model.ckpt-200"]


def test_eval_repeats_the_figures_of_training(tmp_path, data):
    pipeline = pipeline_of(tmp_path, "DeepFM", data, num_steps=30)
    train(pipeline)
    first = result(tmp_path)
    (tmp_path / "model" / "eval_result.txt").unlink()
    evaluate_checkpoint(Request(path=pipeline), checkpoint=None, result_name="eval_result.txt")
    assert result(tmp_path) == first
