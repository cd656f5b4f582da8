"""Pipelines on generated data: every part is trained and evaluated; the wide sweep is slow."""

import json
import math

import numpy as np
import pytest

from easyrec.generate import make_data
from easyrec.pipelines import model, pipeline
from easyrec.running import compare_export, result, train
from fleetrec.cli.eval import EvalRequest, evaluate_checkpoint
from fleetrec.cli.train_eval import TrainEvalRequest, train_and_evaluate
from fleetrec.core.errors import ConfigError
from fleetrec.data.examples import _CLASSES
from making_rows import _masked

ATTENTION = """
sequence_features {
  group_name: "first" allow_key_transform: true transform_dnn: true
  seq_att_map { key: "item" key: "cate" hist_seq: "items" hist_seq: "cates" aux_hist_seq: "prices" }
}
sequence_features {
  group_name: "second" need_key_feature: false allow_key_transform: true
  seq_att_map { key: "item" hist_seq: "items" hist_seq: "prices" }
}
"""
MORE_FEATURES = """
features {
  feature_name: "within" input_names: "price" input_names: "top" feature_type: ExprFeature
  expression: "(price >= top) | (price < 5)"
}
features {
  feature_name: "looked_up" input_names: "cate" input_names: "map" feature_type: LookupFeature
  embedding_dim: 8 hash_bucket_size: 50 kv_separator: ":"
}
features {
  feature_name: "log_price" input_names: "price" feature_type: RawFeature
  normalizer_fn: "lambda x: tf.math.log1p(x)"
}
"""
DSSM = """
  model_class: "DSSM"
  feature_groups {{ group_name: "user" feature_names: ["user", "tags"] }}
  feature_groups {{ group_name: "item" feature_names: ["item", "cate", "price"] }}
  dssm {{
    user_tower {{ id: "user" dnn {{ hidden_units: [16, 8] }} }}
    item_tower {{ id: "item" dnn {{ hidden_units: [16, 8] }} }} {more}
  }}
  loss_type: SOFTMAX_CROSS_ENTROPY
"""
ITEMS = """
  attr_fields: ["item", "cate", "price"] item_id_field: "item" num_sample: 20 num_eval_sample: 30
"""
USERS = 'user_input_path: "u" item_input_path: "i" user_id_field: "user"'
SAMPLERS = {
    "negative_sampler": f'negative_sampler {{ input_path: "i" {ITEMS} }}',
    "in_memory": f'negative_sampler_in_memory {{ input_path: "i" {ITEMS} }}',
    "v2": f'negative_sampler_v2 {{ pos_edge_input_path: "p" {USERS} {ITEMS} }}',
    "hard": f"""hard_negative_sampler {{
      hard_neg_edge_input_path: "h" num_hard_sample: 4 {USERS} {ITEMS} }}""",
    "hard_v2": f"""hard_negative_sampler_v2 {{
      pos_edge_input_path: "p" hard_neg_edge_input_path: "h" num_hard_sample: 4 {USERS} {ITEMS}
    }}""",
}
THRESHOLD = '{"metric_name": "auc", "thre": 0.01}'  # codespell:ignore
RECALL = "metrics_set { recall_at_topk { topk: 5 } }"
LOSSES = {
    "several": """
      losses { loss_type: F1_REWEIGHTED_LOSS f1_reweighted_loss { f1_beta_square: 2.25 } }
      losses { loss_type: PAIR_WISE_LOSS weight: 0.5 pairwise_loss { session_name: "user" } }
      loss_weight_strategy: Uncertainty""",
    "random": """losses { loss_type: CLASSIFICATION } losses { loss_type: BINARY_FOCAL_LOSS }
      loss_weight_strategy: Random""",
    "jrc": "loss_type: JRC_LOSS num_class: 2 losses { loss_type: JRC_LOSS jrc_loss { "
    'session_name: "user" } }',
    "ziln": "loss_type: ZILN_LOSS num_class: 3",
    "sigmoid_l2": "loss_type: SIGMOID_L2_LOSS",
    "focal pairs": "loss_type: PAIRWISE_FOCAL_LOSS",
    "hinge": "loss_type: PAIRWISE_HINGE_LOSS",
    "lists": """losses { loss_type: LISTWISE_RANK_LOSS
      listwise_rank_loss { session_name: "user" } }""",
    "dropout": "variational_dropout { embedding_wise_variational_dropout: true }",
}


def test_groups_attend_over_sequences_of_ids_and_numbers(tmp_path):
    found = result(train(pipeline(model=model(attention=ATTENTION)), tmp_path))
    assert math.isfinite(found["loss/loss/cross_entropy_loss"])


@pytest.mark.slow
@pytest.mark.parametrize("part", ["attention", "features", *LOSSES, "negative_sampler"])
def test_an_exported_model_predicts_what_was_trained(tmp_path, part):
    text = pipeline(model=model(more=LOSSES.get(part, "")))
    if part == "attention":
        text = pipeline(model=model(attention=ATTENTION))
    elif part == "features":
        columns = 'input_fields { input_name: "top" input_type: INT32 } '
        columns += 'input_fields { input_name: "map" }'
        names = '["user", "item", "within", "looked_up", "log_price"]'
        text = pipeline(columns=columns, features=MORE_FEATURES, model=model(names=names))
    elif part == "negative_sampler":
        text = pipeline(data=SAMPLERS[part], evaluation=RECALL, model=DSSM.format(more=""))
    if part == "sigmoid_l2":
        text = text.replace("auc {}", "mean_squared_error {}")
    found = train(text, tmp_path)
    compare_export(found, tmp_path, data=tmp_path / "eval.data")


@pytest.mark.parametrize("kind", ["hard_v2"])
def test_sampled_items_are_candidates(tmp_path, kind):
    text = pipeline(data=SAMPLERS[kind], evaluation=RECALL, model=DSSM.format(more=""))
    found = result(train(text, tmp_path))
    assert {"recall@5", "recall_neg_sam@5", "recall_in_batch@5"} <= found.keys()


@pytest.mark.slow
@pytest.mark.parametrize("kind", SAMPLERS)
def test_every_sampler_trains(tmp_path, kind):
    more = "ignore_in_batch_neg_sam: true" if kind == "in_memory" else ""
    text = pipeline(data=SAMPLERS[kind], evaluation=RECALL, model=DSSM.format(more=more))
    assert math.isfinite(result(train(text, tmp_path))["loss/loss/softmax_cross_entropy_loss"])


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_trains(tmp_path, loss):
    text = pipeline(model=model(more=LOSSES[loss]))
    if loss == "sigmoid_l2":
        text = text.replace("auc {}", "mean_squared_error {}")
    found = result(train(text, tmp_path))
    assert all(math.isfinite(value) for value in found.values())


def test_rtp_text_is_read(tmp_path):
    data = 'separator: "\\002" rtp_separator: "#" selected_cols: "0,1,3"'
    text = pipeline(input_type="RTPInput", data=data, labels='["clk", "buy"]')
    assert result(train(text, tmp_path))["global_step"] == 12


@pytest.mark.parametrize("kind", ["TFRecordInput", "BatchTFRecordInput"])
def test_records_are_read_as_text_is(tmp_path, kind):
    of_text = train(pipeline(data="shuffle: false"), tmp_path / "text")
    extra = "n_data_batch_tfrecord: 8 shuffle: false"
    text = pipeline(input_type=kind, data=extra)
    changes = {}
    for part in ("train", "eval"):
        path = tmp_path / f"{part}.tfrecord"
        write_records(path, tmp_path / "text" / f"{part}.data", several=kind.startswith("Batch"))
        changes[f"{part}_input_path"] = str(path)
    of_records = train(text, tmp_path / "records", **changes)
    assert result(of_records) == pytest.approx(result(of_text), rel=1e-6)


def write_records(path, text, *, several):
    names = ["clk", "buy", "user", "item", "cate", "price", "tags", "items", "cates", "prices"]
    rows = [line.split(",") for line in text.read_text().splitlines()]
    with path.open("wb") as stream:
        for begin in range(0, len(rows), 8 if several else 1):
            message = _CLASSES["SequenceExample" if several else "Example"]()
            for row in rows[begin : begin + (8 if several else 1)]:
                for name, cell in zip(names, row, strict=True):
                    if several:
                        feature = message.feature_lists.feature_list[name].feature.add()
                    else:
                        feature = message.features.feature[name]
                    if name in ("clk", "buy"):
                        feature.int64_list.value.append(int(cell))
                    elif name == "price":
                        feature.float_list.value.append(float(cell))
                    else:
                        feature.bytes_list.value.append(cell.encode())
            data = message.SerializeToString()
            length = len(data).to_bytes(8, "little")
            stream.write(length + _masked(length) + data + _masked(data))


def test_a_function_of_the_user_changes_a_label(tmp_path):
    script = tmp_path / "labels.py"
    script.write_text("import numpy as np\n\ndef flip(x):\n    return np.where(x < 1, 1, 0)\n")
    given = f'user_define_fn: "flip" user_define_fn_path: "{script}" user_define_fn_res_type: INT64'
    head = 'input_name: "clk" input_type: INT32'
    plain = train(pipeline(num_steps=1), tmp_path / "plain")
    text = pipeline(num_steps=1).replace(head, f"{head} {given}")
    flipped = train(text, tmp_path / "flipped")
    path = "loss/loss/cross_entropy_loss"
    assert result(plain)[path] != result(flipped)[path]


def test_a_run_ends_early_at_the_deadline_or_by_a_function(tmp_path):
    late = train(pipeline(num_steps=60, train='dead_line: "1577836800"'), tmp_path / "late")
    assert result(late)["global_step"] == 10
    name = "easy_rec.python.test.custom_early_stop_func.custom_early_stop_func"
    export = f"""enable_early_stop: true early_stop_func: "{name}"
      early_stop_params: '{THRESHOLD}'"""
    text = pipeline(num_steps=60, export=export)
    text = text.replace("save_checkpoints_steps: 100", "save_checkpoints_steps: 10")
    assert result(train(text, tmp_path / "good"))["global_step"] == 10


def test_a_soft_label_of_several_numbers_is_learnt(tmp_path):
    text = pipeline(
        num_steps=4,
        labels='["clk", "soft"]',
        columns='input_fields { input_name: "soft" input_type: STRING }',
        data='label_dim: [1, 3] label_sep: ["", "|"]',
        model=model(
            more="num_class: 3 kd { soft_label_name: 'soft' pred_name: 'logits' "
            "loss_type: CROSS_ENTROPY_LOSS temperature: 2 }"
        ),
        evaluation="metrics_set { accuracy {} recall_at_topk { topk: 2 } }",
    )
    found = result(train(text, tmp_path))
    assert {"accuracy", "recall@2", "loss/loss/kd_loss_logits_soft"} <= found.keys()


def test_columns_and_features_come_from_a_feature_generator(tmp_path):
    entries = [
        {"feature_name": name, "feature_type": "id_feature", "hash_bucket_size": 100}
        for name in ("user", "item")
    ]
    entries.append({"feature_name": "price", "feature_type": "raw_feature"})
    path = tmp_path / "fg.json"
    path.write_text(json.dumps({"features": entries, "multi_val_sep": "|"}))
    names = ["clk", "user", "item", "price"]
    fields = " ".join(f'input_fields {{ input_name: "{name}" }}' for name in names)
    text = f"""
      model_dir: "m" train_input_path: "t" eval_input_path: "e" fg_json_path: "{path}"
      train_config {{ num_steps: 4 optimizer_config {{ adam_optimizer {{
        learning_rate {{ constant_learning_rate {{}} }} }} }} }}
      eval_config {{ metrics_set {{ auc {{}} }} }}
      data_config {{ batch_size: 32 label_fields: "clk" input_type: RTPInput separator: "\\002"
        selected_cols: "0,2" }}
      model_config {{ {model(names='["user", "item", "price"]')} }}
      export_config {{ exporter_type: "none" }}
    """
    folder = tmp_path / "run"
    folder.mkdir()
    shape = tmp_path / "shape.config"
    shape.write_text(
        f'data_config {{ label_fields: "clk" input_type: RTPInput separator: "\\002" '
        f'selected_cols: "0,2" {fields} }}'
        'feature_config { features { input_names: "price" feature_type: RawFeature } }'
    )
    edits = make_data(shape, folder, num_train=100, num_eval=40)
    config = tmp_path / "fg.config"
    config.write_text(text)
    train_and_evaluate(
        TrainEvalRequest(source=str(config), edit_config_json=json.dumps(edits)),
        continue_train=False,
    )
    written = folder / "model" / "pipeline.config"
    assert result(folder / "model")["global_step"] == 4
    assert f'fg_json_path: "!{path}"' in written.read_text()
    evaluate_checkpoint(EvalRequest(source=None, model_dir=str(folder / "model")))
    assert result(folder / "model")["global_step"] == 4


def test_binary_files_of_criteo_are_read(tmp_path):
    numbers = " ".join(
        f'input_fields {{ input_name: "f{i}" input_type: INT64 }}' for i in range(1, 14)
    )
    ids = " ".join(f'input_fields {{ input_name: "c{i}" input_type: INT64 }}' for i in range(1, 27))
    features = 'features { input_names: "f1" feature_type: RawFeature min_val: 0 max_val: 50 }'
    features += "".join(
        f'features {{ input_names: "c{i}" embedding_dim: 8 num_buckets: 40 }}' for i in (1, 2)
    )
    text = f"""
      model_dir: "m"
      binary_train_input {{ category_path: "c" dense_path: "d" label_path: "l" }}
      binary_eval_input {{ category_path: "c" dense_path: "d" label_path: "l" }}
      train_config {{ num_steps: 4 optimizer_config {{ adam_optimizer {{
        learning_rate {{ constant_learning_rate {{}} }} }} }} }}
      eval_config {{ metrics_set {{ auc {{}} }} }}
      data_config {{ batch_size: 32 label_fields: "label" input_type: CriteoInput
        input_fields {{ input_name: "label" input_type: INT32 }} {numbers} {ids} }}
      feature_config {{ {features} }}
      model_config {{ {model(names='["f1", "c1", "c2"]')} }}
      export_config {{ exporter_type: "none" }}
    """
    assert result(train(text, tmp_path))["global_step"] == 4


def test_a_pipeline_may_be_json(tmp_path):
    document = {
        "trainInputPath": "t",
        "evalInputPath": "e",
        "modelDir": "m",
        "trainConfig": {
            "numSteps": 4,
            "optimizerConfig": [{"adamOptimizer": {"learningRate": {"constantLearningRate": {}}}}],
        },
        "evalConfig": {"metricsSet": [{"auc": {}}]},
        "dataConfig": {
            "batchSize": 32,
            "labelFields": ["clk"],
            "inputFields": [
                {"inputName": "clk", "inputType": "INT32"},
                {"inputName": "user"},
                {"inputName": "item"},
            ],
        },
        "featureConfigs": [
            {"inputNames": [name], "embeddingDim": 8, "hashBucketSize": "100"}
            for name in ("user", "item")
        ],
        "modelConfig": {
            "modelClass": "MultiTower",
            "featureGroups": [{"groupName": "all", "featureNames": ["user", "item"]}],
            "multiTower": {
                "towers": [{"input": "all", "dnn": {"hiddenUnits": [8]}}],
                "finalDnn": {"hiddenUnits": [8]},
            },
        },
        "exportConfig": {"exporterType": "none"},
    }
    rows = np.random.default_rng(0).integers(0, 9, (64, 3)).clip([0, 0, 0], [1, 9, 9])
    for part in ("t", "e"):
        np.savetxt(tmp_path / part, rows, fmt="%d", delimiter=",")
    document |= {f"{part}InputPath": str(tmp_path / part[0]) for part in ("train", "eval")}
    document["modelDir"] = str(tmp_path / "model")
    config = tmp_path / "pipeline.json"
    config.write_text(json.dumps(document))
    train_and_evaluate(TrainEvalRequest(source=str(config)), continue_train=False)
    assert result(tmp_path / "model")["global_step"] == 4


def test_a_sequence_that_is_no_sequence_is_refused(tmp_path):
    attention = 'sequence_features { seq_att_map { key: "item" hist_seq: "tags" } }'
    with pytest.raises(ConfigError, match="'tags' is no SequenceFeature"):
        train(pipeline(model=model(attention=attention)), tmp_path)
