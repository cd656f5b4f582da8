"""Pipelines whose network is a backbone, in the shapes that are common."""

from making_pipelines import ALL, TOWERS, model_config

GROUPS = {
    "all": ALL,
    "wide": ALL,
    "numbers": '["price"]',
    "user": '["user", "city"]',
    "sequence": '["item", "visits"]',
}
MLP = "keras_layer { class_name: 'MLP' mlp { hidden_units: [16, 8] %s } }"
LINEAR = "use_final_bn: false final_activation: 'linear'"
LIST = "input_layer { only_output_feature_list: true }"
BOTH = "input_layer { output_2d_tensor_and_feature_list: true }"
SEQUENCE = "input_layer { output_seq_and_normal_feature: true }"


def block(name, inputs, layer="", more=""):
    """Return a block; an input is a group, or a block after a colon, with maybe a function."""
    lines = []
    for one in inputs if isinstance(inputs, list) else [inputs]:
        source, _, function = one.partition(" => ")
        kind, _, named = source.rpartition(":")
        field = {"": "block_name", "group": "feature_group_name", "package": "package_name"}[kind]
        text = f"{field}: '{named}'"
        lines.append(f"inputs {{ {text} {function and f'input_fn: {function!r}'} }}")
    return f"blocks {{ name: '{name}' {' '.join(lines)} {more} {layer} }}\n"


def keras(name, message=""):
    """Return a layer."""
    return f"keras_layer {{ class_name: '{name}' {message} }}"


def struct(**values):
    """Return ``st_params``."""
    entries = []
    for key, value in values.items():
        kind = {bool: "bool_value", str: "string_value"}.get(type(value), "number_value")
        shown = f"{value!r}".lower() if isinstance(value, bool) else repr(value)
        entries.append(f"fields {{ key: '{key}' value {{ {kind}: {shown} }} }}")
    return f"st_params {{ {' '.join(entries)} }}"


def backbone(*parts, top="", concat=(), output=()):
    """Return ``backbone``."""
    names = [f"concat_blocks: '{name}'" for name in concat]
    names += [f"output_blocks: '{name}'" for name in output]
    mlp = f"top_mlp {{ hidden_units: [8] {top} }}" if top is not None else ""
    return f"backbone {{ {' '.join(parts)} {' '.join(names)} {mlp} }}"


def rank(*parts, groups, params="l2_regularization: 1e-6", **more):
    """Return a RankModel over some of the groups."""
    body = f"{backbone(*parts, **more)} model_params {{ {params} }}"
    return model_config("RankModel", body, groups={name: GROUPS[name] for name in groups})


def multi_task(*parts, towers=TOWERS, groups=("all",), **more):
    """Return a MultiTaskModel."""
    body = f"{backbone(*parts, **more)} model_params {{ {towers} }}"
    return model_config("MultiTaskModel", body, groups={name: GROUPS[name] for name in groups})


SENET = keras("SENet", "senet { reduction_ratio: 4 }")
BST = (
    "bst { hidden_size: 8 num_attention_heads: 2 num_hidden_layers: 1 intermediate_size: 8 "
    "max_position_embeddings: 4 hidden_dropout_prob: 0.1 attention_probs_dropout_prob: 0 %s }"
)
CONTRASTIVE = """
packages { name: 'augment' blocks {
  name: 'changed' inputs { block_name: 'history' }
  keras_layer { class_name: 'SeqAugment' seq_aug { mask_rate: 0.6 crop_rate: 0.2 } }
} }
packages { name: 'encoder' blocks {
  name: 'bst' inputs { use_package_input: true }
  keras_layer { class_name: 'BST' ENCODER }
} }
blocks { name: 'contrast'
  inputs { package_name: 'encoder' package_input: 'augment' }
  inputs { package_name: 'encoder' package_input: 'augment' }
  merge_inputs_into_list: true
  keras_layer { class_name: 'AuxiliaryLoss' LOSS }
}
blocks { name: 'main'
  inputs { package_name: 'encoder' package_input: 'history' package_input_fn: 'lambda x: x[:2]' }
  inputs { feature_group_name: 'user' }
}
""".replace("ENCODER", BST % "output_all_token_embeddings: false").replace(
    "LOSS", struct(loss_type="nce_loss", loss_weight=0.1, temperature=0.15)
)
RANKS = {
    "deepfm": rank(
        block("wide", "group:wide", "input_layer { wide_output_dim: 1 }"),
        block(
            "wide_logit",
            "wide",
            "lambda { expression: 'lambda x: tf.reduce_sum(x, axis=1, keepdims=True)' }",
        ),
        block("features", "group:all", BOTH),
        block(
            "numbers",
            "group:numbers",
            keras(
                "AutoDisEmbedding",
                "auto_dis_embedding { embedding_dim: 8 num_bins: 4 temperature: 0.8 "
                "output_tensor_list: true }",
            ),
        ),
        block(
            "fm",
            ["features => lambda x: x[1]", "numbers => lambda x: x[1]"],
            keras("FM", "fm { use_variant: true }"),
        ),
        block("deep", ["features => lambda x: x[0]", "numbers => lambda x: x[0]"], MLP % ""),
        concat=["wide_logit", "fm", "deep"],
        groups=["wide", "all", "numbers"],
    ),
    "periodic": rank(
        block(
            "numbers",
            "group:numbers",
            keras("PeriodicEmbedding", "periodic_embedding { embedding_dim: 8 sigma: 0.1 }"),
        ),
        block("deep", ["numbers", "group:all"], MLP % ""),
        groups=["all", "numbers"],
    ),
    "dcn": rank(
        block("deep", "group:all", MLP % "dropout_ratio: [0.1, 0.1] use_bias: true"),
        block(
            "cross",
            "group:all => lambda x: [x, x]",
            "recurrent { num_steps: 2 fixed_input_index: 0 keras_layer { class_name: 'Cross' } }",
        ),
        concat=["deep", "cross"],
        groups=["all"],
    ),
    "dlrm": rank(
        block("bottom", "group:numbers", MLP % ""),
        block("sparse", "group:all", LIST),
        block("dot", ["bottom => lambda x: [x]", "sparse"], keras("DotInteraction")),
        concat=["bottom", "dot"],
        groups=["all", "numbers"],
    ),
    "wide_and_deep": rank(
        block("wide", "group:wide", LIST),
        block(
            "deep_logit",
            "group:all",
            f"keras_layer {{ class_name: 'MLP' mlp {{ hidden_units: [8, 1] {LINEAR} }} }}",
        ),
        block(
            "logit",
            ["wide => lambda x: tf.add_n(x)", "deep_logit"],
            keras("Add"),
            "merge_inputs_into_list: true",
        ),
        concat=["logit"],
        top=None,
        groups=["wide", "all"],
    ),
    "xdeepfm": rank(
        block("features", "group:all", BOTH),
        block(
            "cin",
            "features",
            keras("CIN", "cin { hidden_feature_sizes: [4, 4] }"),
            "extra_input_fn: 'lambda x: tf.stack(x[1], axis=1)'",
        ),
        block("dnn", "features => lambda x: x[0]", MLP % ""),
        groups=["all"],
    ),
    "fibinet": rank(
        block(
            "all", "group:all", "input_layer { do_batch_norm: true only_output_feature_list: true }"
        ),
        block(
            "fibinet",
            "all",
            keras(
                "FiBiNet",
                "fibinet { senet { reduction_ratio: 4 } bilinear { type: 'each' "
                "num_output_units: 8 } mlp { hidden_units: [8] } }",
            ),
        ),
        concat=["fibinet"],
        top=None,
        groups=["all"],
    ),
    "masknet": rank(
        block(
            "net",
            "group:all",
            keras(
                "MaskNet",
                "masknet { mask_blocks { aggregation_size: 8 output_size: 8 } mask_blocks { "
                "reduction_factor: 0.5 output_size: 8 } mlp { hidden_units: [8] } }",
            ),
        ),
        groups=["all"],
        top=None,
    ),
    "cdn": rank(
        block("memory", "group:user", "keras_layer { class_name: 'MLP' mlp { hidden_units: 8 } }"),
        block(
            "general",
            "group:all => lambda x: [x, x]",
            "repeat { num_repeat: 2 keras_layer { class_name: 'MaskBlock' mask_block { "
            "output_size: 8 aggregation_size: 16 } } }",
        ),
        block(
            "shares",
            "group:numbers",
            "keras_layer { class_name: 'MLP' mlp { hidden_units: 3 use_final_bn: false "
            "final_activation: 'softmax' } }",
        ),
        block(
            "gate",
            ["shares => lambda x: [x]", "memory => lambda x: [x]", "general"],
            keras("Gate"),
        ),
        groups=["all", "user", "numbers"],
    ),
    "ppnet": rank(
        block(
            "net",
            ["group:all", "group:user"],
            keras("PPNet", "ppnet { mlp { hidden_units: [16, 8] } mode: 'lazy' }"),
            "merge_inputs_into_list: true",
        ),
        groups=["all", "user"],
    ),
    "highway": rank(
        block("highway", "group:all", keras("Highway")),
        block("top", ["group:user", "highway"], MLP % ""),
        groups=["all", "user"],
        top=None,
    ),
    "din": rank(
        block("deep", "group:user", MLP % ""),
        block("history", "group:sequence", SEQUENCE),
        block(
            "din",
            "history",
            keras("DIN", "din { attention_dnn { hidden_units: [8, 1] activation: 'dice' } }"),
        ),
        groups=["user", "sequence"],
    ),
    "bst": rank(
        block("history", "group:sequence", SEQUENCE),
        block("bst", "history", keras("BST", BST % "")),
        groups=["sequence"],
    ),
    "cl4srec": rank(
        block("history", "group:sequence", SEQUENCE),
        CONTRASTIVE,
        concat=["main"],
        groups=["user", "sequence"],
    ),
    "text_cnn": rank(
        block("history", "group:sequence", SEQUENCE),
        block(
            "cnn",
            "history",
            keras(
                "TextCNN",
                "text_cnn { filter_sizes: [2, 3] num_filters: [4, 4] pad_sequence_length: 4 "
                "mlp { hidden_units: [8] } }",
            ),
        ),
        block("both", ["cnn", "group:user"]),
        groups=["sequence", "user"],
    ),
    "packages": rank(
        "packages { name: 'tower' blocks { name: 'mlp' inputs { feature_group_name: 'user' } "
        f"{MLP % ''} }} }}",
        block("top", ["package:tower", "group:all"], MLP % ""),
        groups=["all", "user"],
        top=None,
    ),
    "sequential": rank(
        block(
            "net",
            "group:all",
            "".join(
                f"layers {{ {layer} }} "
                for layer in (
                    keras("Dense", struct(units=8, activation="relu")),
                    keras("LayerNormalization"),
                    keras("Dropout", struct(rate=0.1)),
                    "lambda { expression: 'lambda x: x * 2 + 1' }",
                    "repeat { num_repeat: 2 output_concat_axis: -1 keras_layer { "
                    "class_name: 'MLP' mlp { hidden_units: 4 } } }",
                )
            ),
        ),
        groups=["all"],
    ),
}
MULTI_TASKS = {
    "simple": multi_task(block("identity", "group:all"), top=None),
    "mmoe": multi_task(
        block("all", "group:all", LIST),
        block("senet", "all", SENET),
        block(
            "mmoe",
            "senet",
            keras("MMoE", "mmoe { num_task: 3 num_expert: 2 expert_mlp { hidden_units: [8] } }"),
        ),
        top=None,
    ),
    "aitm": multi_task(
        block("mlp", "group:all", MLP % ""),
        towers="""
          task_towers { tower_name: "ctr" label_name: "label" dnn { hidden_units: [8] }
            metrics_set { auc {} } use_ait_module: true }
          task_towers { tower_name: "like" label_name: "like" dnn { hidden_units: [4] }
            relation_tower_names: "ctr" use_ait_module: true ait_project_dim: 8 }
        """,
        top=None,
    ),
}
