"""The keys of both dialects that say when a run saves, evaluates and stops."""

import pytest

from fleetrec.config.pipeline_dialect.decode import Changes, decode_pipeline
from fleetrec.config.pipeline_dialect.edit import edits_of_arguments
from fleetrec.core.errors import ConfigError
from fleetrec.models.pipeline_classes import pipeline_classes
from making_pipelines import MODELS, write_data, write_pipeline
from making_training import decode_run, make_config


@pytest.fixture
def config(tmp_path):
    return make_config(tmp_path, epochs=3, save_checkpoint_path="")


def rules(config, *overrides):
    """The rules of a YAML runner, but for what happens when it is stopped."""
    found = decode_run(config, *(f"runner.train.{text}" for text in overrides)).rules
    assert found[-1].when == "stop"
    return [(rule.when, rule.every, rule.do, rule.path) for rule in found[:-1]]


def test_a_runner_that_saves_nothing_has_no_rules(config):
    assert rules(config) == []


def test_checkpoints_are_saved_after_every_epoch_and_after_the_last(config):
    assert rules(config, "save_checkpoint_path=c") == [
        ("passes", 1, "checkpoint", "c/{pass}"),
        ("end", 1, "checkpoint", "c/{pass}"),
    ]
    assert rules(config, "save_checkpoint_path=c", "save_checkpoint_interval=2")[0][1] == 2


def test_an_interval_of_0_saves_after_the_last_epoch_only(config):
    found = rules(config, "save_inference_path=i", "save_inference_interval=0")
    assert found == [("end", 1, "inference", "i/{pass}")]


def test_checkpoints_within_an_epoch_count_its_batches(config):
    assert rules(config, "save_step_path=s", "save_step_interval=7") == [
        ("pass_steps", 7, "checkpoint", "s/epoch_{pass}_batch_{batch}")
    ]
    assert rules(config, "save_step_path=s") == []


@pytest.mark.parametrize(
    ("overrides", "path"),
    [
        ([], "{folder}/checkpoints"),
        (["save_checkpoint_path=c"], "c"),
        (["save_checkpoint_path=c", "save_step_path=s"], "s"),
    ],
)
def test_a_stopped_run_saves_where_it_saves_anyway(config, overrides, path):
    run = decode_run(config, *(f"runner.train.{text}" for text in overrides))
    assert run.rules[-1].path == f"{path}/epoch_{{pass}}_batch_{{batch}}"
    assert path in run.resume.folders


def test_checkpoints_come_before_evaluations_and_those_before_what_follows_from_them(config):
    found = rules(
        config,
        "save_checkpoint_path=c",
        "eval_dataset=other",
        "keep_best={metric: AUC}",
        "early_stop={metric: LOSS}",
    )
    assert [rule[2] for rule in found if rule[0] == "passes"] == [
        "checkpoint",
        "evaluate",
        "checkpoint",
        "early_stop",
    ]
    assert ("passes", 1, "checkpoint", "c/best") in found
    assert ("end", 1, "evaluate", "") in found


def test_the_best_value_of_a_loss_is_the_lowest(config):
    run = decode_run(
        config,
        "runner.train.eval_dataset=other",
        "runner.train.early_stop={metric: LOGLOSS}",
        "runner.train.keep_best={metric: AUC, path: kept}",
    )
    assert {rule.metric: rule.minimize for rule in run.rules if rule.metric} == {
        "LOGLOSS": True,
        "AUC": False,
    }
    assert run.evaluation.dataset.name == "other"


def test_evaluations_may_count_steps(config):
    found = rules(config, "eval_dataset=other", "eval_interval={steps: 50}")
    assert found[0] == ("steps", 50, "evaluate", "")


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("early_stop={metric: AUC}", "early_stop: given without eval_dataset"),
        ("eval_interval={epochs: 2}", "eval_interval: given without eval_dataset"),
        ("eval_dataset=othr", "eval_dataset: nothing is called 'othr'; did you mean 'other'?"),
        ("eval_interval={epochs: 1, steps: 2}", "expected epochs or steps, not both"),
        ("early_stop={metric: AUC, patience: 0}", "patience: expected"),
        ("early_stop={metrics: AUC}", "metrics: unknown key; did you mean 'metric'?"),
        ("phases=[learn, judge]", ""),
    ],
)
def test_what_does_not_go_together_is_refused(config, override, problem):
    overrides = [f"runner.train.{override}"]
    if not problem:
        overrides.append("runner.train.eval_dataset=other")
        problem = "eval_dataset: is for a runner of one phase"
    with pytest.raises(ConfigError) as caught:
        decode_run(config, *overrides)
    assert any(problem in one for one in caught.value.problems)


def test_the_best_checkpoint_needs_a_place(config):
    with pytest.raises(ConfigError, match="keep_best: expected a path"):
        decode_run(
            config, "runner.train.eval_dataset=other", "runner.train.keep_best={metric: AUC}"
        )


def test_one_metric_has_one_direction(config):
    with pytest.raises(ConfigError, match="minimize is not the same as that of early_stop"):
        decode_run(
            config,
            "runner.train.eval_dataset=other",
            "runner.train.keep_best={metric: AUC, path: kept, minimize: true}",
            "runner.train.early_stop={metric: AUC}",
        )


@pytest.mark.parametrize(
    ("phases", "trained"), [("[learn, judge]", ["learn", "judge"]), ("[]", ["learn"])]
)
def test_servers_train_the_phases_that_a_runner_names_or_the_first(config, phases, trained):
    run = decode_run(
        config, "runner.train.class=local_cluster_train", f"runner.train.phases={phases}"
    )
    assert [phase.name for phase in run.phases] == trained


def pipeline_rules(tmp_path, *arguments, change=lambda text: text):
    path = write_pipeline(tmp_path, MODELS["FM"], paths=write_data(tmp_path))
    path.write_text(change(path.read_text()))
    decoded = decode_pipeline(
        path,
        classes=pipeline_classes(),
        changes=Changes(edits=edits_of_arguments(list(arguments))),
        kind="train",
    )
    return decoded.job.runs[0]


def test_a_pipeline_saves_at_both_ends_and_evaluates_what_it_saves_between(tmp_path):
    run = pipeline_rules(tmp_path, "--train_config.keep_checkpoint_max=4")
    found = [(rule.when, rule.every, rule.do) for rule in run.rules]
    assert found == [
        ("begin", 1, "checkpoint"),
        ("steps", 100, "checkpoint"),
        ("steps", 100, "evaluate"),
        ("end", 1, "checkpoint"),
        ("end", 1, "evaluate"),
        ("stop", 1, "checkpoint"),
    ]
    saving = [rule for rule in run.rules if rule.do == "checkpoint"]
    assert all(rule.path.endswith("/model.ckpt-{step}") and rule.keep == 4 for rule in saving)
    assert run.resume.if_changed == "restart_data"
    assert run.log_style == "steps"


def test_a_pipeline_may_save_by_seconds(tmp_path):
    steps, seconds = "save_checkpoints_steps: 100", "save_checkpoints_secs: 30"
    run = pipeline_rules(tmp_path, change=lambda text: text.replace(steps, seconds))
    assert ("seconds", 30, "checkpoint") in [(r.when, r.every, r.do) for r in run.rules]
    assert not any(rule.when == "steps" for rule in run.rules)
