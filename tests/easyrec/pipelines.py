"""Pipelines of the tests: the same columns, and parts that a test replaces."""

HEAD = """
train_input_path: "train"
eval_input_path: "eval"
model_dir: "model"
train_config {{
  optimizer_config {{
    {optimizer} {{ learning_rate {{ constant_learning_rate {{ learning_rate: 0.01 }} }} }}
  }}
  num_steps: {num_steps} save_checkpoints_steps: 100 log_step_count_steps: 10
  {train}
}}
eval_config {{ {evaluation} }}
data_config {{
  batch_size: 32 input_type: {input_type} label_fields: {labels}
  input_fields {{ input_name: "clk" input_type: INT32 }}
  input_fields {{ input_name: "buy" input_type: INT32 }}
  input_fields {{ input_name: "user" }}
  input_fields {{ input_name: "item" }}
  input_fields {{ input_name: "cate" }}
  input_fields {{ input_name: "price" input_type: DOUBLE }}
  input_fields {{ input_name: "tags" }}
  input_fields {{ input_name: "items" }}
  input_fields {{ input_name: "cates" }}
  input_fields {{ input_name: "prices" }}
  {columns}
  {data}
}}
feature_config {{
  features {{ input_names: "user" embedding_dim: 8 hash_bucket_size: 100 }}
  features {{ input_names: "item" embedding_dim: 8 hash_bucket_size: 100 }}
  features {{ input_names: "cate" embedding_dim: 8 hash_bucket_size: 100 }}
  features {{ input_names: "price" feature_type: RawFeature min_val: 0 max_val: 50 }}
  features {{ input_names: "tags" feature_type: TagFeature embedding_dim: 8 hash_bucket_size: 100 }}
  {items}
  {cates}
  {prices}
  {features}
}}
model_config {{
  {model}
}}
export_config {{ {export} }}
"""
ITEMS = """features {
    input_names: "items" feature_type: SequenceFeature embedding_dim: 8 hash_bucket_size: 100
}"""
CATES = """features {
    input_names: "cates" feature_type: SequenceFeature embedding_dim: 8 hash_bucket_size: 100
    seq_multi_sep: ";" combiner: "mean"
}"""
PRICES = """features {
    input_names: "prices" feature_type: SequenceFeature embedding_dim: 8
    sub_feature_type: RawFeature sequence_length: 10
}"""
MODEL = """
  model_class: "MultiTower"
  feature_groups {{ group_name: "all" feature_names: {names} {attention} }}
  multi_tower {{
    towers {{ input: "all" dnn {{ hidden_units: [16] }} }} final_dnn {{ hidden_units: [8] }}
  }}
  {more}
"""
NAMES = '["user", "item", "cate", "price"]'


def model(*, names=NAMES, attention="", more=""):
    return MODEL.format(names=names, attention=attention, more=more)


def pipeline(**parts):
    """Return the text of a pipeline; parts replace what HEAD leaves open."""
    filled = {
        "optimizer": "adam_optimizer",
        "num_steps": 12,
        "train": "",
        "evaluation": "metrics_set { auc {} }",
        "input_type": "CSVInput",
        "labels": '"clk"',
        "columns": "",
        "data": "",
        "items": ITEMS,
        "cates": CATES,
        "prices": PRICES,
        "features": "",
        "model": model(),
        "export": 'exporter_type: "none"',
        **parts,
    }
    return HEAD.format(**filled)
