"""One small pipeline for every model class."""

from making_backbones import LINEAR, MLP, MULTI_TASKS, RANKS, backbone, block
from making_pipelines import ALL, DNN, FINAL, MODELS, TOWERS, USER_AND_ITEM, model_config

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
    "DBMTL": (f"dbmtl {{ bottom_dnn {EXPERT} expert_dnn {EXPERT} num_expert: 2 {RELATED} }}"),
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
SOFTMAX = "loss_type: SOFTMAX_CROSS_ENTROPY"
TOWER_DNN = "dnn { hidden_units: [16, 8] }"
TOWER_PAIR = f"user_tower {{ %s {TOWER_DNN} }} item_tower {{ %s {TOWER_DNN} }}"
SENET = "senet { num_squeeze_group: 1 reduction_ratio: 2 }"
MATCHES = {
    "DSSM_SENet": model_config(
        "DSSM_SENet",
        f"dssm_senet {{ {TOWER_PAIR % (SENET, SENET)} temperature: 0.5 }}",
        groups=USER_AND_ITEM,
    ),
    "DAT": model_config(
        "DAT",
        f"dat {{ {TOWER_PAIR % ('', '')} temperature: 0.5 }} {SOFTMAX}",
        groups={**USER_AND_ITEM, "user_id_augment": '"user"', "item_id_augment": '"item"'},
    ),
    "MatchModel": model_config(
        "MatchModel",
        backbone(
            block("user_tower", "group:user", MLP % LINEAR),
            block("item_tower", "group:item", MLP % LINEAR),
            output=["user_tower", "item_tower"],
            top=None,
        )
        + f"model_params {{ temperature: 0.5 }} {SOFTMAX}",
        groups=USER_AND_ITEM,
    ),
}
MODAL_GROUPS = {
    "image": '"price"',
    "general": '["user", "city"]',
    "text": '"visits"',
    "other": '"price_bucket"',
}
UNITER = (
    "config { hidden_size: 8 num_attention_heads: 2 num_hidden_layers: 1 intermediate_size: 8 "
    "hidden_act: 'swish' max_position_embeddings: 4 }"
)
CMBF = (
    "config { multi_head_num: 2 text_multi_head_num: 2 image_head_size: 4 text_head_size: 4 "
    "image_feature_dim: 3 image_self_attention_layer_num: 1 cross_modal_layer_num: 2 "
    "image_cross_head_size: 4 text_cross_head_size: 4 max_position_embeddings: 4 "
    "use_token_type: true other_feature_dnn { hidden_units: 4 } }"
)
MODALS = {
    "CMBF": model_config("CMBF", f"cmbf {{ {CMBF} {FINAL} }}", groups=MODAL_GROUPS),
    "Uniter": model_config("Uniter", f"uniter {{ {UNITER} {FINAL} }}", groups=MODAL_GROUPS),
}
HIDDEN = "{ hidden_units: [8] }"
SCORE = "{ hidden_units: [4, 1] }"
PLAIN_MATCHES = {
    "CoMetricLearningI2I": model_config(
        "CoMetricLearningI2I",
        f"metric_learning {{ session_id: 'city' input: 'item' dnn {HIDDEN} highway {{ input: "
        "'user' emb_size: 4 } circle_loss { margin: 0.25 gamma: 8 } } loss_type: CIRCLE_LOSS",
        groups={"item": '["item", "price"]', "user": '"user"'},
    ),
    "DropoutNet": model_config(
        "DropoutNet",
        f"dropoutnet {{ user_content {HIDDEN} user_preference {HIDDEN} item_content {HIDDEN} "
        f"user_tower {HIDDEN} item_tower {HIDDEN} user_dropout_rate: 0.2 }} "
        "losses { loss_type: CLASSIFICATION } losses { loss_type: PAIR_WISE_LOSS }",
        groups={
            "user_content": '"city"',
            "user_preference": '"user"',
            "item_content": '["item", "price"]',
        },
    ),
    "MIND": model_config(
        "MIND",
        f"mind {{ user_dnn {HIDDEN} item_dnn {HIDDEN} concat_dnn {HIDDEN} capsule_config {{ "
        "max_k: 3 max_seq_len: 4 high_dim: 8 } }",
        groups={"hist": '"visits"', "user": '["user", "city"]', "item": '"item"'},
    ),
    "MultiTowerRecall": model_config(
        "MultiTowerRecall",
        f"multi_tower_recall {{ user_tower {{ dnn {HIDDEN} }} item_tower {{ dnn {HIDDEN} }} "
        f"{FINAL} }}",
        groups=USER_AND_ITEM,
    ),
    "PDN": model_config(
        "PDN",
        f"pdn {{ user_dnn {HIDDEN} item_dnn {HIDDEN} u2i_dnn {HIDDEN} trigger_dnn {SCORE} i2i_dnn "
        f"{HIDDEN} sim_dnn {SCORE} bias_dnn {SCORE} direct_user_dnn {HIDDEN} direct_item_dnn "
        f"{HIDDEN} }}",
        groups={
            "u2i_seq": '"visits"',
            "i_seq": '"visits"',
            "i2i_seq": '"visits"',
            "user": '["user", "city"]',
            "item": '"item"',
            "bias": '"city"',
        },
    ),
}
MODELS = {
    **MODELS,
    **PLAIN_MATCHES,
    **MODALS,
    **MATCHES,
    **{name: model_config(name, body, groups={"all": ALL}) for name, body in ONE_GROUP.items()},
    "RankModel": RANKS["deepfm"],
    "MultiTaskModel": MULTI_TASKS["mmoe"],
}
SEVERAL_TASKS = ("DBMTL", "ESMM", "MMoE", "MultiTaskModel", "PLE", "SimpleMultiTask")


def labels_of(name):
    """Return the labels of the pipeline of a model class."""
    if name == "CoMetricLearningI2I":
        return '["label", "city"]'
    return '["label", "like", "score"]' if name in SEVERAL_TASKS else '"label"'


def metrics_of(name):
    """Return the metrics of the pipeline of a model class."""
    if name == "CoMetricLearningI2I":
        return "metrics_set { recall_at_topk { topk: 3 } } metrics_set { precision_at_topk {} }"
    if name in ("DAT", "MatchModel"):
        return "metrics_set { recall_at_topk {} }"
    return "metrics_set { auc {} }"
