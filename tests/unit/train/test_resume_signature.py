"""What a run must have in common with the one that wrote a checkpoint."""

import pytest

from fleetrec.config.job import OptimizerOptions, UpdateOptions
from fleetrec.config.pipeline_dialect.decode import Changes, decode_pipeline
from fleetrec.config.pipeline_dialect.edit import edits_of_arguments
from fleetrec.models.pipeline_classes import pipeline_classes
from fleetrec.train.resume_signature import resume_signature, signature_differences
from making_pipelines import MODELS, write_data, write_pipeline
from making_training import decode_run, make_config


@pytest.fixture
def config(tmp_path):
    return make_config(tmp_path)


def differences(before, now):
    found = signature_differences(resume_signature(before), resume_signature(now), url="c/1")
    return [difference.partition(" was ")[0] for difference in found]


@pytest.mark.parametrize(
    ("override", "changed"),
    [
        ("runner.train.seed=5", "seed"),
        ("hyper_parameters.optimizer.learning_rate=0.5", "phases[0].optimizer.lr"),
        ("hyper_parameters.fc_sizes=[8,8]", "phases[0].model.fc_sizes[0]"),
        ("dataset.data.batch_size=8", "phases[0].dataset.batch_size"),
        ("runner.train.matmul_precision=medium", "matmul_precision"),
        (
            "table_parameters.default.eviction.max_rows=9",
            "phases[0].tables.default.eviction.max_rows",
        ),
    ],
)
def test_what_weights_depend_on_is_compared(config, override, changed):
    found = differences(decode_run(config), decode_run(config, override))
    assert changed in found
    assert all(one.startswith(changed.rpartition(".")[0]) for one in found)


@pytest.mark.parametrize(
    "override",
    [
        "runner.train.epochs=9",
        "runner.train.save_checkpoint_path=elsewhere",
        "runner.train.print_interval=1",
        "phase.learn.thread_num=2",
    ],
)
def test_what_weights_do_not_depend_on_may_change(config, override):
    assert differences(decode_run(config), decode_run(config, override)) == []


def test_which_rows_are_served_may_change(config):
    entry = "table_parameters.default.accessor.ctr_accessor_param"
    before = decode_run(config, f"{entry}.click_coeff=1")
    now = decode_run(config, f"{entry}.click_coeff=1", f"{entry}.base_threshold=9")
    assert differences(before, now) == []


@pytest.mark.parametrize(
    ("update", "changed"),
    [
        ({"optimizers": (OptimizerOptions(lr=0.5),)}, "phases[0].update.optimizers[0].lr"),
        ({"clip_norm": 1.0}, "phases[0].update.clip_norm"),
        ({"embedding_gradient_scale": 2.0}, "phases[0].update.embedding_gradient_scale"),
        ({"frozen": ("x",)}, "phases[0].update.frozen[0]"),
    ],
)
def test_how_gradients_become_updates_is_compared(config, update, changed):
    run = decode_run(config)
    phase = run.phases[0].model_copy(update={"update": UpdateOptions(**update)})
    assert changed in differences(run, run.model_copy(update={"phases": (phase,)}))


@pytest.mark.parametrize(
    "argument",
    [
        "--train_config.optimizer_config[0].adam_optimizer.learning_rate"
        ".constant_learning_rate.learning_rate=0.5",
        "--train_config.gradient_clipping_by_norm=1.0",
        "--train_config.optimizer_config[0].embedding_learning_rate_multiplier=2.0",
    ],
)
def test_the_optimizer_of_a_pipeline_is_compared(tmp_path, argument):
    path = write_pipeline(tmp_path, MODELS["FM"], paths=write_data(tmp_path))
    runs = [
        decode_pipeline(
            path,
            classes=pipeline_classes(),
            changes=Changes(edits=edits_of_arguments(arguments)),
            kind="train",
        ).job.runs[0]
        for arguments in ([], [argument])
    ]
    assert differences(*runs)


def test_a_difference_names_key_checkpoint_and_both_values(config):
    before, now = decode_run(config), decode_run(config, "runner.train.seed=5")
    (text,) = signature_differences(resume_signature(before), resume_signature(now), url="c/1")
    assert text == "seed was 0 when c/1 was written, now it is 5"
