"""Pipelines over data in which clicks follow from planted tastes."""

import csv
import math
import random

import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = ("label", "like", "score", "user", "item", "city", "tags", "price", "history")
CITIES = ("paris", "rome", "oslo", "wien")

HEAD = """
train_input_path: "{train}"
eval_input_path: "{eval}"
model_dir: "{model_dir}"
train_config {{
  log_step_count_steps: 50
  num_steps: {num_steps}
  save_checkpoints_steps: 100
  {train_config}
}}
eval_config {{ {eval_config} }}
data_config {{
  batch_size: 64
  input_type: {input_type}
  label_fields: {labels}
  input_fields {{ input_name: "label" input_type: INT32 }}
  input_fields {{ input_name: "like" input_type: INT32 }}
  input_fields {{ input_name: "score" input_type: FLOAT }}
  input_fields {{ input_name: "user" input_type: STRING }}
  input_fields {{ input_name: "item" input_type: INT64 }}
  input_fields {{ input_name: "city" input_type: STRING }}
  input_fields {{ input_name: "tags" input_type: STRING }}
  input_fields {{ input_name: "price" input_type: DOUBLE }}
  input_fields {{ input_name: "history" input_type: STRING }}
  {data_config}
}}
"""
FEATURES = """
feature_config {
  features { input_names: "user" hash_bucket_size: 1000 embedding_dim: 8 }
  features { input_names: "item" num_buckets: 100 embedding_dim: 8 }
  features { input_names: "city" vocab_list: ["paris", "rome", "oslo"] embedding_dim: 8 }
  features {
    input_names: "tags" feature_type: TagFeature separator: "|" kv_separator: ":"
    hash_bucket_size: 50 embedding_dim: 8 combiner: "mean"
  }
  features { input_names: "price" feature_type: RawFeature }
  features {
    feature_name: "price_bucket" input_names: "price" feature_type: RawFeature
    boundaries: [0.25, 0.5, 0.75] embedding_dim: 8
  }
  features {
    feature_name: "city_item" feature_type: ComboFeature input_names: ["city", "item"]
    hash_bucket_size: 500 embedding_dim: 8
  }
  features {
    input_names: "history" feature_type: SequenceFeature separator: "|" num_buckets: 100
    embedding_dim: 8 max_seq_len: 4 sequence_combiner { attention {} }
  }
}
"""
VISITS = """
  features {
    feature_name: "visits" input_names: "history" feature_type: SequenceFeature separator: "|"
    num_buckets: 100 embedding_dim: 8 max_seq_len: 4
  }
"""  # the history as a sequence, for models that use it so
ADAM = """
optimizer_config {
  adam_optimizer { learning_rate { constant_learning_rate { learning_rate: 0.01 } } }
}
"""
ALL = '["user", "item", "city", "tags", "price_bucket", "city_item"]'
DNN = "dnn { hidden_units: [16, 8] }"


def make_rows(num_rows, *, seed):
    """Users and items have a taste each; who likes what decides the labels."""
    tastes = random.Random(1)
    users = [tastes.gauss(0, 1.5) for _ in range(40)]
    items = [tastes.gauss(0, 1.5) for _ in range(60)]
    draw = random.Random(seed)
    rows = []
    for _ in range(num_rows):
        user, item, price = draw.randrange(40), draw.randrange(60), draw.random()
        taste = users[user] + items[item] - 2 * (price - 0.5)
        label = int(draw.random() < 1 / (1 + math.exp(-taste)))
        like = int(draw.random() < 1 / (1 + math.exp(-2 * users[user])))
        tags = "|".join(f"t{draw.randrange(9)}:{draw.random():.2f}" for _ in range(user % 3))
        history = "|".join(str(draw.randrange(60)) for _ in range(user % 6))
        rows.append(
            (
                label,
                like,
                round(taste, 3),
                f"u{user}",
                item,
                CITIES[user % 4],
                tags,
                round(price, 3),
                history,
            )
        )
    return rows


def write_data(folder, *, kind="csv", num_train=4000, num_eval=1000):
    """Write train and eval files; returns their paths."""
    paths = {}
    for seed, (name, num_rows) in enumerate({"train": num_train, "eval": num_eval}.items()):
        rows = make_rows(num_rows, seed=seed + 10)
        paths[name] = folder / f"{name}.{kind}"
        if kind == "csv":
            with paths[name].open("w", newline="") as stream:
                csv.writer(stream).writerows(rows)
        else:
            columns = zip(*rows, strict=True)
            pq.write_table(pa.table(dict(zip(COLUMNS, columns, strict=True))), paths[name])
    return paths


def write_pipeline(folder, model, *, paths, features=FEATURES, **changes):
    """Write a pipeline file and return its path; ``changes`` replace what HEAD leaves open."""
    is_csv = paths["train"].suffix == ".csv"
    filled = {
        "train": paths["train"],
        "eval": paths["eval"],
        "model_dir": folder / "model",
        "num_steps": 200,
        "train_config": ADAM,
        "eval_config": "metrics_set { auc {} }",
        "labels": '"label"',
        "input_type": "CSVInput" if is_csv else "ParquetInputV2",
        "data_config": "",
        **changes,
    }
    if "visits" in model:
        features = f"{features.rstrip().removesuffix('}')}{VISITS}}}\n"
    path = folder / "pipeline.config"
    path.write_text(HEAD.format(**filled) + features + model)
    return path


def model_config(name, body, *, groups, more=""):
    """Return ``model_config``; a group that is called wide is WIDE."""
    listed = "".join(
        f"  feature_groups {{ group_name: '{group}' feature_names: {features} "
        f"wide_deep: {'WIDE' if group == 'wide' else 'DEEP'} }}\n"
        for group, features in groups.items()
    )
    return f"model_config {{\n  model_class: '{name}'\n{listed}{body}\n{more}\n}}\n"


WIDE_AND_DEEP = {"wide": ALL, "deep": ALL}
USER_AND_ITEM = {
    "user": '["user", "city", "history"]',
    "item": '["item", "price", "price_bucket"]',
}
FINAL = "final_dnn { hidden_units: [8] }"
TOWERS = """
  task_towers {
    tower_name: "ctr" label_name: "label" dnn { hidden_units: [8] }
    metrics_set { auc {} } metrics_set { gauc { uid_field: "user" } }
  }
  task_towers { tower_name: "like" label_name: "like" metrics_set { auc {} } weight: 0.5 }
  task_towers {
    tower_name: "score" label_name: "score" loss_type: L2_LOSS weight: 0.1
    metrics_set { mean_absolute_error {} } metrics_set { mean_squared_error {} }
  }
"""
MODELS = {
    "MultiTower": model_config(
        "MultiTower",
        f"multi_tower {{ towers {{ input: 'user' {DNN} }} towers {{ input: 'item' {DNN} }} "
        f"{FINAL} l2_regularization: 1e-6 }} embedding_regularization: 1e-6",
        groups=USER_AND_ITEM,
    ),
    "DeepFM": model_config("DeepFM", f"deepfm {{ {DNN} {FINAL} }}", groups=WIDE_AND_DEEP),
    "WideAndDeep": model_config("WideAndDeep", f"wide_and_deep {{ {DNN} }}", groups=WIDE_AND_DEEP),
    "FM": model_config("FM", "fm { }", groups=WIDE_AND_DEEP),
    "DCN": model_config(
        "DCN",
        f"dcn {{ deep_tower {{ input: 'all' {DNN} }} cross_tower {{ input: 'all' cross_num: 2 }} "
        f"{FINAL} }}",
        groups={"all": ALL},
    ),
    "DLRM": model_config(
        "DLRM",
        "dlrm { bot_dnn { hidden_units: [16, 8] } top_dnn { hidden_units: [16] } "
        "arch_with_dense_feature: true arch_interaction_itself: true }",
        groups={"dense": '"price"', "sparse": ALL},
    ),
    "DSSM": model_config(
        "DSSM",
        f"dssm {{ user_tower {{ id: 'user' {DNN} }} item_tower {{ id: 'item' {DNN} }} }}",
        groups=USER_AND_ITEM,
    ),
    "MMoE": model_config(
        "MMoE",
        f"mmoe {{ num_expert: 3 expert_dnn {{ hidden_units: [16] }} {TOWERS} }}",
        groups={"all": ALL},
    ),
}
