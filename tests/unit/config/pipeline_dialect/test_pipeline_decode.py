from pathlib import Path

import pytest

from fleetrec.config.pipeline_dialect.decode import Changes, decode_pipeline
from fleetrec.config.pipeline_dialect.edit import edits_of_arguments, edits_of_json
from fleetrec.core.errors import ConfigError
from fleetrec.models.pipeline_classes import pipeline_classes
from making_pipelines import MODELS, write_pipeline

PATHS = {"train": Path("train.csv"), "eval": Path("eval.csv")}

# What is written instead of what, and what is said about it, behind the place of the field.
BROKEN = {
    "a field that nobody knows": (
        "num_steps: 200",
        "num_stepz: 200",
        "train_config.num_stepz: unknown field; did you mean 'num_steps'?",
    ),
    "a word where a number belongs": (
        "batch_size: 64",
        "batch_size: many",
        "data_config.batch_size: expected a whole number, got many",
    ),
    "text without quotes": (
        'model_class: "DeepFM"',
        "model_class: DeepFM",
        "model_config.model_class: expected text in quotes, got DeepFM",
    ),
    "a name of an enum that is misspelt": (
        'input_name: "item" input_type: INT64',
        'input_name: "item" input_type: INT46',
        "data_config.input_fields[4].input_type: expected one of STRING, INT32, INT64, FLOAT, "
        "DOUBLE, BOOL, got INT46; did you mean 'INT64'?",
    ),
    "a feature that no group can find": (
        '"city_item"]',
        '"city_itm"]',
        "model_config.feature_groups[0].feature_names: no feature is called 'city_itm'; "
        "did you mean 'city_item'?",
    ),
    "a column that the data does not have": (
        'input_names: "user"',
        'feature_name: "user" input_names: "usr"',
        "feature_config.features[0].input_names: no column is called 'usr' in "
        "data_config.input_fields; did you mean 'user'?",
    ),
    "a model that is not there yet": (
        'model_class: "DeepFM"',
        'model_class: "DummyModel"',
        "model_config.model_class: DummyModel is known, but not supported yet; supported: ",
    ),
    "a field that is not supported yet": (
        "save_checkpoints_steps: 100",
        "save_checkpoints_steps: 100 force_restore_shape_compatible: true",
        "train_config.force_restore_shape_compatible: is known, but not supported yet; remove it",
    ),
    "an end at no time": (
        "save_checkpoints_steps: 100",
        'save_checkpoints_steps: 100 dead_line: "tomorrow"',
        "train_config.dead_line: expected YYYYMMDD HH:MM:SS, or 10 digits: seconds since 1970; "
        "got 'tomorrow'",
    ),
    "a strategy that cannot run": (
        "save_checkpoints_steps: 100",
        "train_distribute: ExascaleStrategy",
        "train_config.train_distribute: ExascaleStrategy is not supported",
    ),
    "names for a checkpoint that is not given": (
        "num_steps: 200",
        'num_steps: 200 fine_tune_ckpt_var_map: "names.txt"',
        "train_config.fine_tune_ckpt_var_map: given without fine_tune_checkpoint",
    ),
    "two cadences": (
        "save_checkpoints_steps: 100",
        "save_checkpoints_steps: 100 save_checkpoints_secs: 60",
        "train_config.save_checkpoints_secs: excludes save_checkpoints_steps; remove one of them",
    ),
    "two learning rates": (
        "learning_rate { constant_learning_rate { learning_rate: 0.01 } }",
        "learning_rate { constant_learning_rate {} poly_decay_learning_rate "
        "{ learning_rate_base: 1 total_steps: 5 power: 1 } }",
        "train_config.optimizer_config[0].adam_optimizer.learning_rate: expected one of "
        "constant_learning_rate, exponential_decay_learning_rate, manual_step_learning_rate, "
        "cosine_decay_learning_rate, poly_decay_learning_rate, transformer_learning_rate, got "
        "constant_learning_rate and poly_decay_learning_rate",
    ),
    "a run without an end": (
        "num_steps: 200",
        "",
        "train_config.num_steps: expected num_steps here or data_config.num_epochs above 0; else "
        "it never ends",
    ),
    "values without a rule for ids": (
        "hash_bucket_size: 1000",
        "",
        "feature_config.features[0].feature_type: feature user: expected one of hash_bucket_size, "
        "vocab_list, vocab_file, num_buckets and ev_params, which say how values become ids",
    ),
    "ids of floats that nobody rounds": (
        'input_name: "user" input_type: STRING',
        'input_name: "user" input_type: DOUBLE',
        "feature_config.features[0].input_names: feature user: ids of DOUBLE need precision",
    ),
    "a message of another model": (
        "deepfm { ",
        "fm {} deepfm { ",
        "model_config.fm: is the message of FM, but model_class is DeepFM",
    ),
    "increments that are sent to DataHub": (
        "num_steps: 200",
        "num_steps: 200 incr_save_config { dense_save_steps: 10 datahub {} }",
        "train_config.incr_save_config.datahub: is known, but not supported yet; publish in a "
        "folder: fs {}",
    ),
    "increments for a topic without a name": (
        "num_steps: 200",
        'num_steps: 200 incr_save_config { dense_save_steps: 10 kafka { server: "a:9092" } }',
        "train_config.incr_save_config.kafka.topic: required, but missing",
    ),
    "increments for brokers with a password": (
        "num_steps: 200",
        "num_steps: 200 incr_save_config { dense_save_steps: 10 kafka "
        '{ server: "me:secret@a:9092" topic: "t" } }',
        "train_config.incr_save_config.kafka: kafka://a:9092/t: user and password must not be in",
    ),
    "increments that go nowhere": (
        "num_steps: 200",
        "num_steps: 200 incr_save_config { dense_save_steps: 10 }",
        "train_config.incr_save_config: expected where serving models are published: fs {}",
    ),
    "increments that are never due": (
        "num_steps: 200",
        "num_steps: 200 incr_save_config { fs {} }",
        "train_config.incr_save_config: expected dense_save_steps, sparse_save_steps, "
        "dense_save_secs or sparse_save_secs above 0",
    ),
    "increments that go to two places": (
        "num_steps: 200",
        "num_steps: 200 incr_save_config { dense_save_steps: 10 fs {} datahub {} }",
        "train_config.incr_save_config: expected one of kafka, datahub, fs, got datahub and fs",
    ),
    "dropout for other layers": (
        "hidden_units: [16, 8]",
        "hidden_units: [16, 8] dropout_ratio: 0.5",
        "model_config.deepfm.dnn: dropout_ratio: expected 2 values, one for each of hidden_units, "
        "got 1",
    ),
}


@pytest.fixture(scope="module")
def classes():
    return pipeline_classes()


def decode(path, classes, *, kind="train", **changes):
    return decode_pipeline(path, classes=classes, changes=Changes(**changes), kind=kind)


def pipeline(folder, model="DeepFM", **changes):
    path = write_pipeline(folder, MODELS[model], paths=PATHS, **changes)
    path.write_text(path.read_text().replace("'", '"'))
    return path


def said(path, classes, **changes):
    with pytest.raises(ConfigError) as caught:
        decode(path, classes, **changes)
    return list(caught.value.problems)


@pytest.mark.parametrize("what", sorted(BROKEN))
def test_a_broken_pipeline_is_answered_with_its_place(tmp_path, classes, what):
    old, new, message = BROKEN[what]
    path = pipeline(tmp_path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    problems = said(path, classes)
    place, _, spoken = problems[0].removeprefix(f"{path}:").partition(": ")
    assert spoken.startswith(message)
    line, _, column = place.partition(":")
    written = path.read_text().splitlines()[int(line) - 1][int(column) - 1 :]
    assert written[:1].isidentifier()


def test_all_problems_are_told_at_once_in_the_order_of_the_file(tmp_path, classes):
    path = pipeline(tmp_path)
    text = path.read_text().replace("num_steps:", "num_stepz:").replace("separator:", "separatorx:")
    path.write_text(text.replace("batch_size: 64", 'batch_size: "64"'))
    words = [problem.partition(": ")[2].partition(":")[0] for problem in said(path, classes)]
    assert words == [
        "train_config.num_stepz",
        "data_config.batch_size",
        "feature_config.features[3].separatorx",
        "feature_config.features[3].kv_separatorx",
        "feature_config.features[7].separatorx",
    ]


def test_fields_without_effect_are_noticed(tmp_path, classes):
    path = pipeline(tmp_path, data_config="prefetch_size: 8")
    (notice,) = [n for n in decode(path, classes).job.notices if "prefetch_size" in n]
    assert notice.endswith("data_config.prefetch_size: has no effect here")


def test_a_run_says_that_it_exports_nothing_unless_that_is_meant(tmp_path, classes):
    path = pipeline(tmp_path)
    (notice,) = [n for n in decode(path, classes).job.notices if "export_config" in n]
    assert 'export_config: nothing is exported, unlike in EasyRec; set exporter_type: "final"' in (
        notice
    )
    path.write_text(path.read_text() + 'export_config { exporter_type: "none" }')
    assert not [n for n in decode(path, classes).job.notices if "export_config" in n]


@pytest.mark.parametrize(("kind", "moments"), [("final", 1), ("latest", 2), ("best", 2)])
def test_an_exporter_is_a_rule_of_the_run(tmp_path, classes, kind, moments):
    path = pipeline(tmp_path)
    options = f'exporter_type: "{kind}" exports_to_keep: 3 metric_bigger: false'
    path.write_text(path.read_text() + f"export_config {{ {options} }}")
    (run,) = decode(path, classes).job.runs
    rules = [rule for rule in run.rules if rule.do == "inference"]
    assert len(rules) == moments
    for rule in rules:
        assert rule.path.endswith(f"/export/{kind}/{{step}}")
        assert rule.keep == 3
        assert (rule.metric, rule.minimize) == (("auc", True) if kind == "best" else (None, False))


def test_an_unknown_exporter_is_refused(tmp_path, classes):
    path = pipeline(tmp_path)
    path.write_text(path.read_text() + 'export_config { exporter_type: "newest" }')
    assert "exporter_type" in said(path, classes)[0]


def test_the_best_export_needs_evaluation_data(tmp_path, classes):
    path = pipeline(tmp_path)
    lines = [line for line in path.read_text().splitlines() if "eval_input_path" not in line]
    path.write_text("\n".join([*lines, 'export_config { exporter_type: "best" }']))
    assert "exporter_type: best needs evaluation data" in said(path, classes)[0]


def test_a_file_of_another_kind_is_refused(classes):
    (problem,) = said(Path("x.json"), classes)
    assert problem == "x.json: no such file"
    (problem,) = said(Path("nowhere.config"), classes)
    assert problem == "nowhere.config: no such file"


def test_required_fields_take_their_defaults(tmp_path, classes):
    run = decode(pipeline(tmp_path), classes).job.runs[0]
    assert {rule.keep for rule in run.rules if rule.do == "checkpoint"} == {10}
    assert run.summary_interval == 1000
    assert run.phases[0].dataset.shuffle_rows == 32
    assert run.phases[0].model.deepfm.l2_regularization == 1e-4


@pytest.mark.parametrize(
    ("sink", "folder"),
    [
        ("fs {}", "{model_dir}/incr_save"),
        ("fs { incr_save_dir: 'increments' }", "{model_dir}/increments"),
        ("fs { incr_save_dir: 's3://bucket/i' relative: false }", "s3://bucket/i"),
    ],
)
def test_increments_become_rules_that_publish_serving_models(tmp_path, classes, sink, folder):
    increments = (
        "incr_save_config { sparse_save_steps: 10 dense_save_steps: 25 dense_save_secs: 60 "
        f"sparse_save_secs: 60 {sink} }}"
    )
    path = pipeline(tmp_path)
    path.write_text(
        path.read_text().replace("num_steps: 200", f"num_steps: 200 {increments}").replace("'", '"')
    )
    run = decode(path, classes).job.runs[0]
    rules = [rule for rule in run.rules if rule.do == "serving"]
    assert [(rule.when, rule.every) for rule in rules] == [
        ("steps", 10),
        ("steps", 25),
        ("seconds", 60),
    ]
    model_dir = str(tmp_path / "model")
    for rule in rules:
        assert rule.path == f"{model_dir}/model.ckpt-{{step}}"  # which a continued run finds
        assert rule.keep == 10
        assert rule.serving.folder == folder.format(model_dir=model_dir)
        assert rule.serving.path == f"{rule.serving.folder}/{{step}}"
        assert (rule.serving.kind, rule.serving.id_by) == ("delta", "step")


def test_the_mount_path_of_increments_is_noticed(tmp_path, classes):
    increments = "incr_save_config { dense_save_steps: 5 fs { mount_path: 'x' } }"
    path = pipeline(tmp_path, num_steps=f"200 {increments}")
    (notice,) = [n for n in decode(path, classes).job.notices if "incr_save_config" in n]
    assert notice.endswith("train_config.incr_save_config.fs.mount_path: has no effect here")


def edited(path, classes, json="{}", arguments=()):
    edits = [*edits_of_json(json), *edits_of_arguments(list(arguments))]
    return decode(path, classes, edits=edits).job.runs[0]


def test_paths_reach_every_field(tmp_path, classes):
    run = edited(
        pipeline(tmp_path),
        classes,
        '{"data_config.batch_size": 7, "train_config.freeze_gradient": ["user", "item"],'
        ' "feature_config.features[input_names[0]=user].embedding_dim": 4,'
        ' "feature_config.features[1:].embedding_dim": 4,'
        ' "model_config.deepfm.dnn.hidden_units": [5, 6], "model_dir": "elsewhere",'
        ' "model_config.deepfm.dnn.use_bn": false, "eval_config.num_examples": 10}',
        ["--train_config.num_steps=3", "--data_config.label_fields", '["like"]'],
    )
    phase = run.phases[0]
    assert phase.dataset.batch_size == 7
    assert phase.update.frozen == ("user", "item")
    assert {f.embedded.dim for f in phase.model.groups[1].features} == {4}
    assert phase.model.deepfm.dnn.hidden_units == (5, 6)
    assert not phase.model.deepfm.dnn.use_bn
    assert run.rules[0].path == "elsewhere/model.ckpt-{step}"
    assert run.evaluation.num_samples == 10
    assert run.num_steps == 3
    assert phase.model.labels == ("like",)


def test_an_edit_switches_the_optimizer(tmp_path, classes):
    path = "train_config.optimizer_config[0].ftrl_optimizer.learning_rate.constant_learning_rate"
    run = edited(pipeline(tmp_path), classes, f'{{"{path}.learning_rate": 0.5}}')
    (optimizer,) = run.phases[0].update.optimizers
    assert (optimizer.name, optimizer.lr) == ("ftrl_power", 0.5)


def test_a_message_may_be_replaced_whole(tmp_path, classes):
    run = edited(pipeline(tmp_path), classes, '{"model_config.deepfm.dnn": "{hidden_units: [3]}"}')
    assert run.phases[0].model.deepfm.dnn.hidden_units == (3,)


def test_a_condition_picks_elements_by_default_values_too(tmp_path, classes):
    edit = '{"feature_config.features[feature_type=IdFeature].embedding_dim": 8}'
    assert edited(pipeline(tmp_path), classes, edit)
    narrow = '{"feature_config.features[hash_bucket_size>=1000].hash_bucket_size": 5}'
    features = edited(pipeline(tmp_path), classes, narrow).phases[0].dataset.features
    sizes = {f.name: f.buckets.hash_buckets for f in features}
    assert (sizes["user"], sizes["city_item"]) == (5, 500)


@pytest.mark.parametrize(
    ("json", "arguments", "message"),
    [
        ("[1]", [], "--edit_config_json: expected an object, got '[1]'"),
        (
            '{"train_config.num_stepz": 1}',
            [],
            "--edit_config_json train_config.num_stepz=1: unknown field 'num_stepz'; "
            "did you mean 'num_steps'?",
        ),
        (
            '{"feature_config.features[99].embedding_dim": 1}',
            [],
            "--edit_config_json feature_config.features[99].embedding_dim=1: features has 8 "
            "elements, none is [99]",
        ),
        (
            '{"feature_config.features.embedding_dim": 1}',
            [],
            "--edit_config_json feature_config.features.embedding_dim=1: features may hold "
            "several; say which, as in features[0]",
        ),
        (
            '{"feature_config.features[max_seq_len>999].embedding_dim": 1}',
            [],
            "--edit_config_json feature_config.features[max_seq_len>999].embedding_dim=1: of 8 "
            "elements of features none meets [max_seq_len>999]",
        ),
        (
            '{"feature_config.features[input_names[x]=user].embedding_dim": 1}',
            [],
            "--edit_config_json feature_config.features[input_names[x]=user].embedding_dim=1: "
            "input_names[x]: expected a number in a condition",
        ),
        (
            "{}",
            ["--train_config.num_steps"],
            "--train_config.num_steps: expected a value after it",
        ),
        ("{}", ["--trian_config.x=1"], "--trian_config.x=1: unknown argument; did you mean"),
        ("{}", ["--train_config.num_steps=x"], "--train_config.num_steps=x: "),
    ],
)
def test_a_bad_edit_is_named(tmp_path, classes, json, arguments, message):
    with pytest.raises(ConfigError) as caught:
        edited(pipeline(tmp_path), classes, json, arguments)
    assert str(caught.value).startswith(message)


def test_shared_names_and_ranges_are_expanded(tmp_path, classes):
    path = pipeline(tmp_path)
    text = path.read_text().replace('"user" hash', '"user" shared_names: "city2" hash', 1)
    text = text.replace('input_name: "history"', 'input_name: "city[2-3]"')
    text = text.replace('"city_item"]', '"city[2-2]"]')
    path.write_text(text.replace('input_names: "history"', 'input_names: "city3"'))
    run = edited(path, classes, '{"data_config.auto_expand_input_fields": true}')
    dataset = run.phases[0].dataset
    assert [column.name for column in dataset.columns][-2:] == ["city2", "city3"]
    assert {f.name: f.buckets.hash_buckets for f in dataset.features}["city2"] == 1000


def test_a_growing_table_takes_any_id(tmp_path, classes):
    run = edited(
        pipeline(tmp_path),
        classes,
        '{"feature_config.features[0].ev_params": "{filter_freq: 3}"}',
    )
    user = run.phases[0].model.groups[1].features[0].embedded
    assert (user.num_rows, user.min_count) == (None, 3)
    assert run.phases[0].dataset.features[0].buckets.hash_buckets == 2**63 - 1
