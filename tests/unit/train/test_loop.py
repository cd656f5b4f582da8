"""Passes, rules and interruptions in one process."""

from pathlib import Path

import pytest
import torch

from fleetrec.core.batch import Cursor
from fleetrec.core.errors import ModelError
from fleetrec.core.progress import Progress
from fleetrec.data.files import list_files
from fleetrec.parallel.solo import SoloGroup
from fleetrec.train.loop import Loop, with_prefetch
from fleetrec.train.pass_plan import PassSpec
from fleetrec.train.phase import build_phase
from fleetrec.train.rules import NoRules
from making import make_data, tensors_of
from making_online import DAYS, make_days, write_online_job
from making_training import (
    BATCH_SIZE,
    BATCHES,
    Recorder,
    decode_run,
    make_config,
    make_context,
    train,
)

EVERYTHING = {
    "save_step_interval": 2,
    "save_step_path": "steps",
    "save_checkpoint_base_interval": 3,
    "eval_dataset": "other",
    "keep_best": {"metric": "AUC", "path": "kept"},
    "early_stop": {"metric": "AUC", "patience": 2},
}


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def config(tmp_path):
    return make_config(tmp_path, epochs=2, **EVERYTHING)


def num_calls_of_should_stop():
    """One after every step, one after every batch of an evaluation."""
    return 2 * BATCHES + 2 * -(-50 // BATCH_SIZE)


def test_a_run_reports_steps_passes_and_what_it_saved(config):
    outcome = train(decode_run(config), Path("run"))
    recorder = outcome.recorder
    assert [info.step for info in recorder.steps] == list(range(2 * BATCHES))
    assert [info.fraction for info in recorder.steps] == sorted(i.fraction for i in recorder.steps)
    assert recorder.steps[-1].fraction == 1
    passes = [done for done in recorder.passes if done.kind == "train"]
    assert [done.epoch for done in passes] == ["0", "1"]
    assert [done.metrics["SAMPLES"] for done in passes] == [BATCH_SIZE * BATCHES - 3] * 2
    assert list(recorder.evaluations()) == ["0", "1"]
    assert set(recorder.saved_urls) >= {"ckpt/0", "ckpt/1", "kept/best", "steps/epoch_1_batch_4"}


@pytest.mark.parametrize("stop_at", range(1, num_calls_of_should_stop() + 1))
def test_a_run_that_is_stopped_anywhere_and_resumed_equals_an_unbroken_one(
    config, tmp_path, monkeypatch, stop_at
):
    run = decode_run(config)
    outcome = train(run, Path("run"), stop_at=stop_at)
    assert outcome.stopped is not None
    assert Path(outcome.stopped, "MANIFEST.json").is_file()
    resumed = train(run, Path("run"), resume=True)
    assert resumed.stopped is None
    (tmp_path / "unbroken").mkdir()
    monkeypatch.chdir(tmp_path / "unbroken")
    train(run, Path("run"))
    for name in ("ckpt/1", "kept/best"):
        assert tensors_of(tmp_path / name) == tensors_of(Path(name))


def test_a_loss_that_is_not_finite_changes_no_weight(config):
    run = decode_run(config, "hyper_parameters.optimizer={class: sgd, learning_rate: 1e38}")
    recorder = Recorder()
    group = SoloGroup(torch.device("cpu"))
    phase = build_phase(run.phases[0], run, group)
    files = {phase.name: phase.loader.files}
    spec = PassSpec(name="0", index=0, event_time=0, files=files, fingerprint={})
    loop = Loop([phase], group, Once(spec), NoRules(), make_context(Path("run"), recorder), run=run)
    loop.begin(Progress())
    with pytest.raises(ModelError, match="lower learning_rate"):
        loop.run_pass(spec)
    assert loop.progress.step == len(recorder.steps)
    assert all(parameter.isfinite().all() for parameter in phase.model.parameters())


class Once:
    """A plan of one pass."""

    def __init__(self, spec):
        self._spec = spec

    def next(self, after):
        return self._spec if after.pass_index <= self._spec.index else None


def test_a_plan_may_name_files_and_event_time_when_a_pass_begins(config, tmp_path):
    run = decode_run(config)
    recorder = Recorder()
    group = SoloGroup(torch.device("cpu"))
    phase = build_phase(run.phases[0], run, group)
    new = make_data(tmp_path / "new", num_samples=7)
    files = {phase.name: tuple(list_files(str(new)))}
    spec = PassSpec(name="20260101", index=0, event_time=777, files=files, fingerprint={})
    times = set()

    class Times(NoRules):
        def after_step(self, progress, *, event_time):
            times.add((progress.step, event_time))

    context = make_context(Path("run"), recorder)
    Loop([phase], group, Once(spec), Times(), context, run=run).run()
    (done,) = recorder.passes
    assert (done.epoch, done.metrics["SAMPLES"]) == ("20260101", 7)
    assert times == {(1, 777)}


@pytest.mark.parametrize("is_ahead", [False, True])
def test_a_pass_that_another_worker_had_begun_is_not_evaluated_again(tmp_path, is_ahead):
    """That worker does not evaluate it, and would be waited for."""
    run = decode_run(write_online_job(tmp_path, make_days(tmp_path / "days"), prefetch=False))
    recorder, group = Recorder(), SoloGroup(torch.device("cpu"))
    phase = build_phase(run.phases[0], run, group)
    files = {phase.name: tuple(list_files(str(tmp_path / "days" / DAYS[0] / "0000")))}
    spec = PassSpec(name="0", index=0, event_time=0, files=files, fingerprint={})
    loop = Loop([phase], group, Once(spec), NoRules(), make_context(Path("run"), recorder), run=run)
    ahead = Progress(batch=1, step=1, cursor=Cursor(file=0, samples=20))
    loop.begin(Progress(), by_worker=[Progress(), ahead if is_ahead else Progress()])
    loop.run_pass(spec)
    assert [done.kind for done in recorder.passes] == ["infer", "train"][is_ahead:]


def test_num_steps_ends_a_run_within_a_pass(config):
    run = decode_run(config).model_copy(update={"num_steps": 3, "num_epochs": None})
    outcome = train(run, Path("run"))
    assert len(outcome.recorder.steps) == 3
    assert outcome.recorder.steps[-1].fraction == 1


def test_a_run_resumed_at_its_end_makes_no_step(config):
    run = decode_run(config)
    train(run, Path("run"))
    before = tensors_of(Path("ckpt/1"))
    assert train(run, Path("run"), resume=True).recorder.steps == []
    assert tensors_of(Path("ckpt/1")) == before


class Prefetching:
    """Remembers what it is called with."""

    prefetches = True

    def __init__(self):
        self.calls = []

    def prefetch(self, batch):
        self.calls.append(batch)


@pytest.mark.parametrize("num_batches", [0, 1, 3])
def test_every_batch_but_the_first_is_prefetched_one_step_ahead(num_batches):
    stepper = Prefetching()
    batches = with_prefetch(iter(range(num_batches)), stepper)
    seen = [(batch, list(stepper.calls)) for batch in batches]
    ahead = [list(range(1, min(batch + 2, num_batches))) for batch in range(num_batches)]
    assert seen == list(zip(range(num_batches), ahead, strict=True))
