import json
import subprocess
import sys

import pytest

from making_pipelines import DNN, write_data, write_pipeline

MULTI_TOWER = f"""
model_config {{
  model_class: "MultiTower"
  feature_groups {{ group_name: "user" feature_names: ["user", "city", "history"] }}
  feature_groups {{ group_name: "item" feature_names: ["item", "price", "price_bucket"] }}
  multi_tower {{
    towers {{ input: "user" {DNN} }}
    towers {{ input: "item" {DNN} }}
    final_dnn {{ hidden_units: [16] dropout_ratio: [0.1] }}
    l2_regularization: 1e-6
  }}
  embedding_regularization: 1e-6
}}
"""
MODELS = {"MultiTower": MULTI_TOWER}


def run(verb, *arguments):
    return subprocess.run(
        [sys.executable, "-m", f"fleetrec.{verb}", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def succeed(verb, *arguments):
    done = run(verb, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def result(folder):
    return json.loads((folder / "model" / "eval_result.txt").read_text())


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_pipeline_learns_what_was_planted(tmp_path, kind):
    paths = write_data(tmp_path, kind=kind)
    pipeline = write_pipeline(tmp_path, MULTI_TOWER, paths=paths)
    succeed("train_eval", "--pipeline_config_path", pipeline)
    assert result(tmp_path)["auc"] > 0.8
    assert result(tmp_path)["global_step"] == 200
    names = sorted(path.name for path in (tmp_path / "model").glob("model.ckpt-*"))
    assert names == ["model.ckpt-0", "model.ckpt-100", "model.ckpt-200"]
