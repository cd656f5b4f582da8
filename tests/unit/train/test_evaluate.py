"""Metrics on data that a model is not trained on."""

import json
import math
from pathlib import Path

import pytest
import torch

from fleetrec.core.errors import DataError
from fleetrec.parallel.solo import SoloGroup
from fleetrec.train.context import StopRequestedError
from fleetrec.train.evaluate import PhaseEvaluation, evaluate, write_result
from fleetrec.train.metrics import PassMetrics
from fleetrec.train.phase import build_phase
from making import columns_of, write_tables
from making_training import Recorder, decode_run, make_config, make_context, train


@pytest.fixture
def run(tmp_path):
    return decode_run(make_config(tmp_path, eval_dataset="other"))


@pytest.fixture
def group():
    return SoloGroup(torch.device("cpu"))


@pytest.fixture
def phase(run, group):
    return build_phase(run.phases[0], run, group)


def state_of(phase, folder):
    weights = {name: value.tolist() for name, value in phase.model.state_dict().items()}
    tables = write_tables(phase.state, folder)
    rows = {
        f"{name}.{column}": values.tolist()
        for name, stored in tables.items()
        for column, values in columns_of(stored).items()
    }
    return weights, rows


def evaluated(phase, group, **options):
    metrics = PassMetrics(phase.model.tasks)
    with phase.loader.epoch(0) as batches:
        return evaluate(phase.stepper, group, batches, metrics, **options)


def test_every_sample_counts_once_and_the_model_stays_as_it_is(phase, group, tmp_path):
    before = state_of(phase, tmp_path / "before")
    found = evaluated(phase, group)
    assert found.metrics["SAMPLES"] == found.num_samples == 77
    assert evaluated(phase, group).metrics == found.metrics
    assert state_of(phase, tmp_path / "after") == before


def test_only_so_many_batches_are_evaluated(phase, group):
    assert evaluated(phase, group, max_batches=2).num_samples == 32
    assert evaluated(phase, group, max_batches=99).num_samples == 77


def test_an_evaluation_can_be_stopped(phase, group):
    seen = []
    with pytest.raises(StopRequestedError):
        evaluated(
            phase,
            group,
            should_stop=lambda: len(seen) == 3,
            on_batch=lambda batch, _: seen.append(batch),
        )
    assert len(seen) == 3


class TwoOfThem(SoloGroup):
    """One of two processes; the other has evaluated the same."""

    size = 2

    def all_gather(self, content, *, key, pass_index):
        self.called = (key, pass_index)
        return [content, content]


def test_counters_of_all_processes_are_merged(phase, group):
    alone = evaluated(phase, group)
    pair = TwoOfThem(torch.device("cpu"))
    found = evaluated(phase, pair, key="mine", pass_index=4)
    assert pair.called == ("mine", 4)
    assert found.num_samples == alone.num_samples
    assert found.metrics["SAMPLES"] == 2 * alone.num_samples
    assert found.metrics["AUC"] == alone.metrics["AUC"]


def test_an_evaluation_of_a_phase_is_reported_under_its_name(run, phase, group, tmp_path):
    recorder = Recorder()
    context = make_context(tmp_path / "run", recorder)
    evaluation = PhaseEvaluation(run.evaluation, phase, group, context, seed=0)
    metrics = evaluation.run(name="model.ckpt-7", key="evaluate", pass_index=None)
    (done,) = recorder.passes
    assert (done.kind, done.phase, done.epoch) == ("infer", "eval", "model.ckpt-7")
    assert done.metrics == metrics
    assert metrics["SAMPLES"] == 50
    assert evaluation.metric_names() == list(metrics)


def test_some_samples_are_rounded_up_to_batches(run, phase, group, tmp_path):
    options = run.evaluation.model_copy(update={"num_samples": 17})
    context = make_context(tmp_path / "run", Recorder())
    evaluation = PhaseEvaluation(options, phase, group, context, seed=0)
    assert evaluation.run(name="x", key="evaluate", pass_index=None)["SAMPLES"] == 32


def test_results_are_written_as_easyrec_does(tmp_path):
    url = str(tmp_path / "result.txt")
    write_result(url, {"auc": 0.5, "LOSS": 0.25, "gauc": math.nan}, step=9)
    assert json.loads(Path(url).read_text()) == {
        "auc": 0.5,
        "gauc": None,
        "global_step": 9,
        "loss/loss/total_loss": 0.25,
    }


def test_data_without_samples_is_an_error_before_anything_is_saved(tmp_path):
    config = make_config(tmp_path)
    for path in (tmp_path / "data").iterdir():
        path.write_bytes(b"")
    with pytest.raises(DataError, match=r"data set \w+: it has no samples \(files: .*data/"):
        train(decode_run(config), tmp_path / "run")
    assert not list(tmp_path.rglob("MANIFEST.json"))
