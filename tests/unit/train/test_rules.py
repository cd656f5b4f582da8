"""When rules are due, and what they do then."""

from pathlib import Path

import pytest

from fleetrec.config.rules import Rule, ServingRule
from fleetrec.core.errors import ConfigError
from fleetrec.export.done_files import read_models
from making_online import DAYS, make_days, write_online_job
from making_training import BATCHES, Recorder, decode_run, make_config, train


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def config(tmp_path):
    return make_config(tmp_path, epochs=2, save_checkpoint_path="")


def saved(config, *rules, **options):
    """Return what a run saves by some rules, in order."""
    run = decode_run(config, *options.pop("overrides", ()))
    run = run.model_copy(update={"rules": rules, **options.pop("update", {})})
    return train(run, Path("run"), **options).recorder.saved_urls


@pytest.mark.parametrize(
    ("when", "every", "expected"),
    [
        ("begin", 1, ["0/end/0"]),
        ("passes", 1, ["0/end/5", "1/end/10"]),
        ("passes", 2, ["1/end/10"]),
        ("steps", 4, ["0/3/4", "1/2/8"]),
        ("pass_steps", 3, ["0/0/1", "0/3/4", "1/0/6", "1/3/9"]),
        ("end", 1, ["1/end/10"]),
    ],
)
def test_a_rule_is_due_at_its_moments(config, when, every, expected):
    rule = Rule(when=when, every=every, do="checkpoint", path="c/{pass}/{batch}/{step}")
    assert saved(config, rule) == [f"c/{name}" for name in expected]


def test_the_folder_of_the_run_is_part_of_a_path(config):
    rule = Rule(when="end", do="checkpoint", path="{folder}/kept-{step}")
    assert saved(config, rule) == ["run/kept-10"]


def test_seconds_are_those_of_the_clock_of_the_chief(config):
    rule = Rule(when="seconds", every=9, do="checkpoint", path="c/{step}")
    found = saved(config, rule)
    assert 1 <= len(found) < 2 * BATCHES  # every call of the clock is a second
    assert found == sorted(found, key=lambda url: int(url.removeprefix("c/")))


def test_event_minutes_follow_the_data_and_not_the_clock(config):
    rule = Rule(when="event_minutes", every=60, do="checkpoint", path="c/{step}")
    assert saved(config, rule) == ["c/6"]  # the first step of the second epoch, a day later


def test_a_checkpoint_of_the_same_path_and_progress_is_saved_once(config):
    rules = [Rule(when=when, do="checkpoint", path="c/{step}") for when in ("passes", "end")]
    assert saved(config, *rules) == ["c/5", "c/10"]


def test_a_stopped_run_is_saved_by_the_rule_for_it(config):
    rule = Rule(when="stop", do="checkpoint", path="c/epoch_{pass}_batch_{batch}")
    assert saved(config, rule, stop_at=7) == ["c/epoch_1_batch_1"]


def test_only_the_newest_checkpoints_of_a_rule_stay(config):
    kept = Rule(when="steps", every=2, do="checkpoint", path="c/model.ckpt-{step}", keep=2)
    other = Rule(when="begin", do="checkpoint", path="c/other-{step}")
    saved(config, kept, other)
    found = sorted(path.name for path in Path("c").iterdir())
    assert found == ["model.ckpt-10", "model.ckpt-8", "other-0"]


EVALUATED = ("runner.train.eval_dataset=other",)


def test_evaluations_are_named_and_written(config):
    rule = Rule(when="steps", every=5, do="evaluate", name="at {step}", path="result.txt")
    run = decode_run(config, *EVALUATED).model_copy(update={"rules": (rule,)})
    outcome = train(run, Path("run"))
    assert list(outcome.recorder.evaluations()) == ["at 5", "at 10"]
    assert '"global_step": 10' in Path("result.txt").read_text()


def test_an_evaluation_at_the_same_step_is_not_repeated(config):
    rules = tuple(Rule(when=when, do="evaluate") for when in ("passes", "end"))
    run = decode_run(config, *EVALUATED).model_copy(update={"rules": rules})
    assert list(train(run, Path("run")).recorder.evaluations()) == ["0", "1"]


def test_a_metric_that_the_model_does_not_have_is_refused_before_the_first_step(config):
    run = decode_run(
        config, *EVALUATED, "runner.train.early_stop={metric: auc}", "runner.train.epochs=1"
    )
    with pytest.raises(ConfigError, match=r"metric auc: .*known: AUC, "):
        train(run, Path("run"))


def stopping(config, *overrides):
    """A run whose metric never improves: it is the number of samples."""
    early = "runner.train.early_stop={metric: SAMPLES, patience: 2}"
    return decode_run(
        config,
        *EVALUATED,
        early,
        "runner.train.epochs=9",
        "runner.train.save_checkpoint_path=c",
        *overrides,
    )


def test_a_run_ends_when_its_metric_does_not_improve(config, caplog):
    caplog.set_level("INFO")
    outcome = train(stopping(config), Path("run"))
    assert list(outcome.recorder.evaluations()) == ["0", "1", "2"]
    assert "stopped early at step 15: SAMPLES has not improved in 2 evaluations" in caplog.text
    assert Path("c/2/MANIFEST.json").is_file()


def test_a_run_that_has_stopped_early_stays_stopped(config):
    run = stopping(config)
    train(run, Path("run"))
    assert train(run, Path("run"), resume=True).recorder.steps == []


def test_more_patience_continues_a_run_that_has_stopped_early(config):
    train(stopping(config), Path("run"))
    patient = stopping(config, "runner.train.early_stop={metric: SAMPLES, patience: 3}")
    assert len(train(patient, Path("run"), resume=True).recorder.steps) == BATCHES


def test_evaluations_by_steps_end_a_run_within_an_epoch(config):
    run = stopping(config, "runner.train.eval_interval={steps: 2}")
    outcome = train(run, Path("run"))
    assert len(outcome.recorder.steps) == 6
    assert list(outcome.recorder.evaluations()) == ["step 2", "step 4", "step 6"]


def serving(when, every, **changes):
    values = {"path": "serving/{step}", "folder": "serving", **changes}
    path = "c/{pass}-{batch}"
    return Rule(when=when, every=every, do="serving", path=path, serving=ServingRule(**values))


def test_serving_models_are_published_when_they_are_due(config):
    found = saved(config, serving("steps", 4, id_by="step"))
    assert found == ["c/0-3", "serving/4", "c/1-2", "serving/8"]
    assert [one.id for one in read_models("serving", "base")] == [4]
    assert [one.id for one in read_models("serving", "delta")] == [8]


def test_serving_models_may_be_numbered_by_event_time(config):
    saved(config, serving("passes", 1))
    assert [one.id for one in read_models("serving", "base")] == [0]
    assert [one.id for one in read_models("serving", "delta")] == [86_400]
    (delta,) = read_models("serving", "delta")
    assert 0 < delta.monitor_data["AUC"] < 1


def test_every_serving_model_of_a_rule_may_be_a_base(config):
    saved(config, serving("passes", 1, kind="base"))
    assert [(one.id, one.key) for one in read_models("serving", "base")] == [
        (0, 0),
        (86_400, 86_400),
    ]


def test_done_files_in_two_folders_are_refused(config):
    rules = [serving("passes", 1), serving("steps", 2, folder="elsewhere")]
    with pytest.raises(ConfigError, match="serving models need one folder of done files"):
        saved(config, *rules)


def test_serving_models_of_several_phases_are_refused(config):
    with pytest.raises(ConfigError, match="made of runs with one phase, this one has 2"):
        saved(config, serving("passes", 1), overrides=("runner.train.phases=[learn, judge]",))


def test_the_action_and_its_options_belong_together():
    with pytest.raises(ValueError, match="is for the action 'serving', which needs it"):
        Rule(when="end", do="serving")
    with pytest.raises(ValueError, match="is for the action 'serving', which needs it"):
        Rule(when="end", do="delta", serving=ServingRule(path="a", folder="b"))


class OrderRecorder(Recorder):
    """Keeps the order of steps and checkpoints."""

    def __init__(self):
        super().__init__()
        self.order = []

    def step(self, info):
        self.order.append(info.epoch)

    def saved(self, what, url, *, epoch):
        del what, epoch
        self.order.append(url)


def test_with_servers_no_step_of_the_next_day_is_made_before_the_last_one_is_saved(tmp_path):
    config = write_online_job(tmp_path, make_days(tmp_path / "data"), prefetch=False)
    recorder = OrderRecorder()
    # Where steps outlive a process it has a journal.
    train(decode_run(config), Path("run"), recorder=recorder, journal=Path("journal"))
    order = recorder.order
    assert order.index(f"model/{DAYS[1]}/0") < order.index(3)  # the first pass of the second day
    assert order.index(f"model/{DAYS[1]}/base") < order.index(3)
