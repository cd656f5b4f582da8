"""One small pipeline for every model class."""

from making_backbones import MULTI_TASKS, RANKS
from making_pipelines import ALL, DNN, FINAL, MODELS, TOWERS, model_config

ATTENTION = """
  seq_att_groups { group_name: "clicks" seq_att_map { key: "item" hist_seq: "visits" } }
"""
RELATED = """
  task_towers {
    tower_name: "ctr" label_name: "label" dnn { hidden_units: [8] }
    relation_dnn { hidden_units: [4] } metrics_set { auc {} }
  }
  task_towers {
    tower_name: "like" label_name: "like" metrics_set { auc {} } weight: 0.5
    relation_tower_names: "ctr" relation_dnn { hidden_units: [4] }
  }
  task_towers {
    tower_name: "score" label_name: "score" loss_type: L2_LOSS weight: 0.1
    metrics_set { mean_absolute_error {} }
  }
"""
EXPERT = "{ hidden_units: [8] }"
TOWER_OF_ALL = f"towers {{ input: 'all' {DNN} }} {FINAL}"
ONE_GROUP = {
    "AutoInt": "autoint { multi_head_num: 2 multi_head_size: 4 interacting_layer_num: 2 }",
    "DBMTL": (
        f"dbmtl {{ bottom_dnn {EXPERT} expert_dnn {EXPERT} num_expert: 2 {RELATED} }}"
    ),
    "PLE": (
        "ple { extraction_networks { network_name: 'first' expert_num_per_task: 2 share_num: 1 "
        f"task_expert_net {EXPERT} share_expert_net {EXPERT} }} extraction_networks {{ "
        f"network_name: 'last' expert_num_per_task: 1 share_num: 1 task_expert_net {EXPERT} "
        f"share_expert_net {EXPERT} }} {TOWERS} }}"
    ),
    "ESMM": (
        f"esmm {{ ctr_tower {{ tower_name: 'ctr' label_name: 'label' dnn {EXPERT} metrics_set {{ "
        f"auc {{}} }} }} cvr_tower {{ tower_name: 'cvr' label_name: 'like' dnn {EXPERT} "
        "metrics_set { auc {} } metrics_set { gauc { uid_field: 'city' } } } }"
    ),
    "RocketLaunching": (
        f"rocket_launching {{ share_dnn {EXPERT} booster_dnn {{ hidden_units: [8, 4] }} light_dnn "
        "{ hidden_units: [4] } feature_based_distillation: true } num_class: 2"
    ),
    "SimpleMultiTask": f"simple_multi_task {{ {TOWERS} }}",
    "MultiTowerDIN": (
        f"multi_tower {{ {TOWER_OF_ALL} din_towers {{ input: 'clicks' dnn {{ hidden_units: [8, 1] "
        f"}} }} }} {ATTENTION}"
    ),
    "MultiTowerBST": (
        f"multi_tower {{ {TOWER_OF_ALL} bst_towers {{ input: 'clicks' seq_len: 4 "
        f"multi_head_size: 2 }} }} {ATTENTION}"
    ),
}
MODELS = {
    **MODELS,
    **{name: model_config(name, body, groups={"all": ALL}) for name, body in ONE_GROUP.items()},
    "RankModel": RANKS["deepfm"],
    "MultiTaskModel": MULTI_TASKS["mmoe"],
}
SEVERAL_TASKS = ("DBMTL", "ESMM", "MMoE", "MultiTaskModel", "PLE", "SimpleMultiTask")


def labels_of(name):
    """Return the labels of the pipeline of a model class."""
    return '["label", "like", "score"]' if name in SEVERAL_TASKS else '"label"'
