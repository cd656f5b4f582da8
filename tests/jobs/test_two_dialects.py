"""The same DeepFM, once as YAML and once as pipeline text, ends in the same weights."""

import random

import numpy as np
import pytest
import torch

from fleetrec.checkpoint.folder import open_folder
from fleetrec.checkpoint.table_view import open_tables
from fleetrec.checkpoint.tensors import read_tensors
from fleetrec.cli.run import RunRequest, run_command
from fleetrec.config.yaml_dialect.locate import ZOO

COLUMNS = ("c1", "c2", "c3")

YAML = """
mode: train
dataset:
- name: clicks
  type: DataLoader
  batch_size: 50
  data_path: "{data}"
  format: csv
  columns: label c1 c2 c3
  sparse_slots: label c1 c2 c3
  buckets: {{c1: 1000, c2: 1000, c3: 1000}}
hyper_parameters:
  optimizer: {{class: {optimizer}, learning_rate: 0.01}}
  sparse_feature_number: 1000
  sparse_feature_dim: 8
  fc_sizes: [16, 8]
  reg: 0
runner:
- name: train
  class: train
  epochs: 2
  save_checkpoint_interval: 2
  save_checkpoint_path: "{folder}/yaml"
phase:
- {{name: model, model: "{model}", dataset_name: clicks}}
"""
PIPELINE = """
train_input_path: "{data}"
model_dir: "{folder}/pipeline"
train_config {{
  optimizer_config {{
    {optimizer}_optimizer {{
      learning_rate {{ constant_learning_rate {{ learning_rate: 0.01 }} }}
    }}
  }}
}}
data_config {{
  batch_size: 50
  num_epochs: 2
  shuffle: false
  label_fields: "label"
  input_fields {{ input_name: "label" input_type: INT32 }}
  input_fields {{ input_name: "c1" }}
  input_fields {{ input_name: "c2" }}
  input_fields {{ input_name: "c3" }}
}}
{features}
model_config {{
  model_class: "DeepFM"
  feature_groups {{
    group_name: "wide" wide_deep: WIDE
    feature_names: ["c1_wide", "c2_wide", "c3_wide"]
  }}
  feature_groups {{ group_name: "deep" wide_deep: DEEP feature_names: ["c1", "c2", "c3"] }}
  deepfm {{ dnn {{ hidden_units: [16, 8] use_bn: false }} l2_regularization: 0 }}
}}
"""
FEATURE = """
feature_configs {{
  input_names: "{name}" hash_bucket_size: 1000 embedding_dim: 8 embedding_name: "factors"
  initializer {{ random_normal_initializer {{ stddev: 0.1 }} }}
}}
feature_configs {{
  feature_name: "{name}_wide" input_names: "{name}" hash_bucket_size: 1000
  embedding_name: "first_order" initializer {{ constant_initializer {{ consts: 0 }} }}
}}
"""


@pytest.mark.parametrize("optimizer", ["lazy_adam", "momentum"])
def test_yaml_and_pipeline_end_in_the_same_weights(tmp_path, optimizer):
    data = tmp_path / "clicks.csv"
    draw = random.Random(0)
    data.write_text(
        "".join(
            f"{draw.randrange(2)},a{draw.randrange(9)},b{draw.randrange(9)},c{draw.randrange(9)}\n"
            for _ in range(230)
        )
    )
    filled = {"data": data, "folder": tmp_path, "optimizer": optimizer}
    (tmp_path / "job.yaml").write_text(
        YAML.format(model=ZOO / "rank" / "deepfm" / "model.py", **filled)
    )
    features = "".join(FEATURE.format(name=name) for name in COLUMNS)
    (tmp_path / "job.config").write_text(PIPELINE.format(features=features, **filled))

    for name in ("job.yaml", "job.config"):
        run_command(RunRequest(model=str(tmp_path / name), log_dir=tmp_path / "logs"))

    yaml, pipeline = tmp_path / "yaml" / "1", tmp_path / "pipeline" / "model.ckpt-10"
    ours, theirs = (
        read_tensors(open_folder(path, kind="checkpoint"), "model")["model"]
        for path in (yaml, pipeline)
    )
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    tables, others = open_tables(yaml), open_tables(pipeline)
    for name, other in (("factors", "factors"), ("first_order", "first_order_wide")):
        rows, other_rows = rows_of(tables[f"model/{name}"]), rows_of(others[f"model/{other}"])
        assert rows.keys() == other_rows.keys()
        assert len(rows) > 20
        assert all(np.array_equal(rows[one], other_rows[one]) for one in rows)


def rows_of(table):
    return {
        int(one): row
        for block in table.blocks()
        for one, row in zip(block["ids"], block["rows"], strict=True)
    }
