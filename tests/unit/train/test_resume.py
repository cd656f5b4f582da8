"""Which checkpoint an interrupted run goes on from."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from fleetrec.config.rules import ResumeOptions, Rule
from fleetrec.core.errors import ConfigError, DataError
from fleetrec.parallel.solo import SoloGroup
from fleetrec.train.context import RunContext
from fleetrec.train.pass_plan import Epochs
from fleetrec.train.phase import build_phase
from fleetrec.train.resume import Resumer
from making_training import Recorder, decode_run, make_config, make_context, train

TABLE = "learn/tables/SparseFeatFactors/00000-of-00001.snap"


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def config(tmp_path):
    return make_config(tmp_path, epochs=2, save_step_interval=2, save_step_path="steps")


@pytest.fixture
def run(config):
    """A run that was stopped after 8 of its 10 steps."""
    found = decode_run(config)
    train(found, Path("run"), stop_at=8)
    return found


def resume(run, group=None, folder=Path("run")):
    group = group or SoloGroup(torch.device("cpu"))
    phases = [build_phase(options, run, group) for options in run.phases]
    plan = Epochs(run.num_epochs, {phase.name: phase.loader.files for phase in phases})
    context: RunContext = make_context(folder, Recorder())
    return Resumer(run, phases, group, group, plan, context).resume()


def damage(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_the_newest_checkpoint_of_the_run_is_loaded(run):
    found = resume(run)
    assert found.url == "steps/epoch_1_batch_2"
    assert found.is_exact
    assert [one.step for one in found.progress] == [8]


def test_damaged_checkpoints_are_passed_over_with_a_warning(run, caplog):
    damage(Path("steps/epoch_1_batch_2") / TABLE)
    Path("steps/epoch_1_batch_0/MANIFEST.json").write_text("{")
    assert resume(run).url == "ckpt/0"
    assert "passed over: steps/epoch_1_batch_2" in caplog.text
    assert "epoch_1_batch_0" in caplog.text


def test_checkpoints_of_another_run_do_not_count(run):
    manifest = Path("steps/epoch_1_batch_2/MANIFEST.json")
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"run_id": "f" * 16}))
    assert resume(run).url == "steps/epoch_1_batch_0"


def test_nothing_is_resumed_where_nothing_was_run(config, caplog):
    assert resume(decode_run(config)) is None
    assert "no checkpoint to resume from in ckpt, steps, run/checkpoints" in caplog.text


def test_other_options_are_refused_by_name(run, config):
    with pytest.raises(ConfigError, match=r"--resume: phases\[0\]\.optimizer\.lr was 0\.01"):
        resume(decode_run(config, "hyper_parameters.optimizer.learning_rate=0.5"))


def test_other_data_are_refused(run):
    with Path("data/part-0").open("a") as stream:
        stream.write("click:1 dense_feature:1 dense_feature:1 1:1\n")
    with pytest.raises(DataError, match="--resume: the data files have changed since steps/"):
        resume(run)


def test_a_checkpoint_within_an_epoch_is_for_the_same_number_of_workers(run, caplog):
    manifest = Path("steps/epoch_1_batch_2/MANIFEST.json")
    content = json.loads(manifest.read_text())
    content["worker_progress"] = [content["progress"]] * 2
    manifest.write_text(json.dumps(content))
    assert resume(run).url == "steps/epoch_1_batch_0"
    assert "written by 2 workers within an epoch, now there are 1" in caplog.text


def by_step(run, **options):
    """The same run, which finds its checkpoints by the step in their names."""
    rule = Rule(when="steps", every=4, do="checkpoint", path="m/ckpt-{step}")
    resume_options = ResumeOptions(folders=("m",), prefix="ckpt-", if_changed="restart_data")
    return run.model_copy(update={"rules": (rule,), "resume": resume_options, **options})


def test_checkpoints_by_step_are_found_whatever_the_run(config):
    run = by_step(decode_run(config))
    train(run, Path("run"))
    found = resume(run, folder=Path("another"))
    assert (found.url, found.is_exact) == ("m/ckpt-8", True)


def test_other_options_keep_the_weights_and_begin_the_data_where_that_is_allowed(config, caplog):
    caplog.set_level("INFO")
    run = by_step(decode_run(config))
    train(run, Path("run"))
    found = resume(by_step(decode_run(config, "hyper_parameters.optimizer.learning_rate=0.5")))
    assert (found.url, found.is_exact) == ("m/ckpt-8", False)
    (progress,) = found.progress
    assert (progress.step, progress.pass_index, progress.cursor) == (8, 0, None)
    assert "from the beginning of the data" in caplog.text


def test_a_checkpoint_from_before_the_last_names_is_still_resumed(run):
    manifest = Path("steps/epoch_1_batch_2/MANIFEST.json")
    content = json.loads(manifest.read_text())
    progress = content.pop("progress")
    content["position"] = {"epoch": progress.pop("pass_index"), **progress}
    manifest.write_text(json.dumps(content))
    assert [one.step for one in resume(run).progress] == [8]


class FailingPeer(SoloGroup):
    """Two ranks that act together; the other one cannot read the newest checkpoint."""

    def all_gather(self, content, *, key, pass_index):
        del pass_index
        return [content, b"rank 1: no such file" if key == "resume/1" else b""]


def test_a_checkpoint_that_one_rank_cannot_load_is_passed_over_by_all(run, caplog):
    found = resume(run, FailingPeer(torch.device("cpu")))
    assert found.url == "steps/epoch_1_batch_0"
    assert "passed over: steps/epoch_1_batch_2: rank 1: no such file" in caplog.text


def test_tables_are_empty_when_nothing_sound_is_left(run):
    for folder in ("steps", "ckpt"):
        for checkpoint in Path(folder).iterdir():
            damage(checkpoint / TABLE)
    group = SoloGroup(torch.device("cpu"))
    phases = [build_phase(options, run, group) for options in run.phases]
    plan = Epochs(2, {phase.name: phase.loader.files for phase in phases})
    context = make_context(Path("run"), Recorder())
    assert Resumer(run, phases, group, group, plan, context).resume() is None
    assert len(phases[0].state.export_rows()["SparseFeatFactors"]["ids"]) == 0


def test_a_checkpoint_without_progress_is_damaged(run, caplog):
    manifest = Path("steps/epoch_1_batch_2/MANIFEST.json")
    content = json.loads(manifest.read_text())
    del content["progress"]
    manifest.write_text(json.dumps(content))
    assert resume(run).url == "steps/epoch_1_batch_0"
    assert "damaged: it has no progress" in caplog.text
    shutil.rmtree("steps")
    assert resume(run).url == "ckpt/0"
