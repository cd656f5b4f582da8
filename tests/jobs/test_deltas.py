"""Checkpoints that hold only what changed: they resume, move and break as their chain does."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from fleetrec.config.yaml_dialect.locate import ZOO
from fleetrec.core.errors import CheckpointError, ConfigError, MismatchError
from making import make_data, make_job, run, tensors_of, write_job

GROWING = (
    "hyper_parameters.distributed_embedding=1",
    "hyper_parameters.admission={kind: score, threshold: 1.2, show_weight: 0.3}",
    "hyper_parameters.eviction={max_unseen_days: 1, min_score: 1, decay: 0.7, max_rows: 40}",
)
TABLE = "learn/tables/SparseFeatFactors"


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def config(tmp_path) -> Path:
    """Four epochs of 14 batches; a checkpoint every 5 batches and after every epoch."""
    data = make_data(tmp_path / "data", num_samples=214, num_files=3)
    job = make_job(
        data,
        epochs=4,
        batch_size=16,
        save_step_interval=5,
        save_step_path="steps",
        save_checkpoint_base_interval=6,
    )
    job["phase"][0]["shuffle_filelist"] = True
    return write_job(job, tmp_path / "config.yaml")


def manifest(checkpoint):
    return json.loads((Path(checkpoint) / "MANIFEST.json").read_text())


def record(checkpoint):
    return manifest(checkpoint)["tables"]["learn"]["SparseFeatFactors"]


def kinds(*checkpoints):
    return [record(checkpoint)["kind"] for checkpoint in checkpoints]


def stop_after(num_steps, monkeypatch):
    steps = iter(range(num_steps - 1))
    monkeypatch.setattr(
        "fleetrec.cli.signals.StopRequest.is_requested", lambda _: next(steps, None) is None
    )


def stopped(config, *overrides, monkeypatch, num_steps):
    with monkeypatch.context() as context:
        stop_after(num_steps, context)
        with pytest.raises(KeyboardInterrupt):
            run(config, *overrides)


def unbroken(config, *overrides, monkeypatch, tmp_path):
    place = tmp_path / "unbroken"
    place.mkdir()
    with monkeypatch.context() as context:
        context.chdir(place)
        run(config, *overrides)
        return tensors_of(Path("ckpt/3"))


def test_every_nth_checkpoint_is_a_base_and_names_no_parent(config):
    run(config, *GROWING)
    order = [f"steps/epoch_0_batch_{b}" for b in (0, 5, 10)] + ["ckpt/0"]
    order += [f"steps/epoch_1_batch_{b}" for b in (0, 5, 10)] + ["ckpt/1"]
    assert kinds(*order) == ["base"] + ["delta"] * 5 + ["base", "delta"]
    assert record(order[0])["parent"] is None
    assert record("ckpt/0")["parent"]["path"] == "../../steps/epoch_0_batch_10"
    assert record("ckpt/0")["parent"]["fingerprint"] == record(order[2])["fingerprint"]


def test_without_the_option_every_checkpoint_is_a_base(config):
    run(config, "runner.train.save_checkpoint_base_interval=1", "runner.train.epochs=2")
    assert kinds("steps/epoch_0_batch_5", "steps/epoch_1_batch_0", "ckpt/1") == ["base"] * 3


def test_deltas_hold_the_same_as_bases(config, monkeypatch, tmp_path):
    run(config, *GROWING)
    deltas = tensors_of(Path("ckpt/3"))
    every = (*GROWING, "runner.train.save_checkpoint_base_interval=1")
    assert deltas == unbroken(config, *every, monkeypatch=monkeypatch, tmp_path=tmp_path)


@pytest.mark.parametrize("num_steps", [2, 20, 33, 44])
def test_a_run_resumed_from_a_delta_ends_equal(config, monkeypatch, tmp_path, num_steps):
    stopped(config, *GROWING, monkeypatch=monkeypatch, num_steps=num_steps)
    run(config, *GROWING, resume=True)
    resumed = tensors_of(Path("ckpt/3"))
    assert resumed == unbroken(config, *GROWING, monkeypatch=monkeypatch, tmp_path=tmp_path)


def test_a_resumed_run_continues_the_chain(config, monkeypatch):
    stopped(config, monkeypatch=monkeypatch, num_steps=18)
    assert kinds("steps/epoch_1_batch_0", "steps/epoch_1_batch_3") == ["delta", "delta"]
    run(config, resume=True)
    assert kinds("steps/epoch_1_batch_5", "steps/epoch_1_batch_10") == ["base", "delta"]


def test_a_run_stopped_right_after_a_checkpoint_saves_no_second_one(config, monkeypatch):
    stopped(config, monkeypatch=monkeypatch, num_steps=6)  # batch 5 has just been saved
    assert sorted(path.name for path in Path("steps").iterdir()) == [
        "epoch_0_batch_0",
        "epoch_0_batch_5",
    ]


def test_a_parent_that_was_deleted_is_not_built_on(config, monkeypatch):
    with monkeypatch.context() as context:
        context.setattr(
            "fleetrec.train.observers.JsonObserver.saved",
            lambda _, what, url, *, epoch: url.endswith("batch_5") and shutil.rmtree(url),
        )
        run(config, "runner.train.epochs=1")
    assert kinds("steps/epoch_0_batch_10", "ckpt/0") == ["base", "delta"]


def test_with_several_phases_that_replace_each_others_steps_all_are_bases(config):
    run(config, "runner.train.phases=[learn,judge]", "runner.train.epochs=1")
    assert kinds("steps/epoch_0_batch_5", "ckpt/0") == ["base", "base"]


def test_several_phases_have_deltas_after_epochs(config, monkeypatch, tmp_path):
    options = ("runner.train.phases=[learn,judge]", "runner.train.save_step_path=", *GROWING)
    options += ("runner.train.save_step_interval=-1", "runner.train.save_checkpoint_path=ckpt")
    stopped(config, *options, monkeypatch=monkeypatch, num_steps=60)
    assert kinds("ckpt/0", "ckpt/1") == ["base", "delta"]
    assert manifest("ckpt/1")["tables"]["judge"]["SparseFeatFactors"]["kind"] == "delta"
    run(config, *options, resume=True)
    resumed = tensors_of(Path("ckpt/3"))
    assert resumed == unbroken(config, *options, monkeypatch=monkeypatch, tmp_path=tmp_path)


def test_a_chain_can_be_moved_as_a_whole(config, tmp_path):
    run(config, "runner.train.epochs=2")
    before = tensors_of(Path("ckpt/1"))
    Path("moved").mkdir()
    shutil.move("ckpt", "moved/ckpt")
    shutil.move("steps", "moved/steps")
    assert tensors_of(Path("moved/ckpt/1")) == before
    run(config, "mode=infer", "runner.infer.init_model_path=moved/ckpt/1")


def test_a_missing_parent_is_named(config):
    run(config, "runner.train.epochs=1")
    shutil.rmtree("steps/epoch_0_batch_5")
    with pytest.raises(
        CheckpointError,
        match=r"epoch_0_batch_10: is a delta of .*epoch_0_batch_5, which cannot be opened; keep",
    ):
        run(config, "mode=infer", "runner.infer.init_model_path=ckpt/0")


def test_a_parent_of_another_run_is_not_taken(config):
    run(config, "runner.train.epochs=1")
    shutil.move("ckpt/0", "kept")
    shutil.rmtree("ckpt")
    Path("ckpt").mkdir()
    shutil.move("kept", "ckpt/0")
    run(
        config,
        "runner.train.epochs=1",
        "runner.train.seed=5",
        "runner.train.save_checkpoint_path=x",
    )
    with pytest.raises(CheckpointError, match="which has been replaced since by another"):
        run(config, "mode=infer", "runner.infer.init_model_path=ckpt/0")


def damage(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_damaged_base_takes_its_deltas_with_it(config, monkeypatch, capsys):
    stopped(config, monkeypatch=monkeypatch, num_steps=31)  # 8 checkpoints: the 7th is a base
    damage(Path("steps/epoch_1_batch_10") / TABLE / "00000-of-00001.snap")
    capsys.readouterr()
    run(config, resume=True)
    printed = capsys.readouterr().out
    assert kinds("steps/epoch_1_batch_5") == ["delta"]
    assert "resumed from steps/epoch_1_batch_5" in printed
    for name in ("steps/epoch_2_batch_2", "steps/epoch_2_batch_0", "ckpt/1"):
        assert f"passed over: {name}: " in printed


def test_a_run_that_finds_nothing_sound_starts_anew_with_empty_tables(
    config, monkeypatch, tmp_path
):
    stopped(config, *GROWING, monkeypatch=monkeypatch, num_steps=12)
    for base in Path("steps").glob("*"):
        damage(base / TABLE / "00000-of-00001.snap")
    run(config, *GROWING, resume=True)
    anew = tensors_of(Path("ckpt/3"))
    assert anew == unbroken(config, *GROWING, monkeypatch=monkeypatch, tmp_path=tmp_path)


def own_optimizer(config, tmp_path, name):
    text = (ZOO / "rank/dnn/model.py").read_text()
    method = f"""
    def optimizer(self, configured):
        return OptimizerOptions(name="{name}", lr=0.5)

    def forward("""
    text = text.replace("\n    def forward(", method, 1)
    (tmp_path / "model.py").write_text("from fleetrec.config.job import OptimizerOptions\n" + text)
    return ("phase.learn.model=model.py", "phase.judge.model=model.py")


def test_a_model_with_another_optimizer_is_not_resumed(config, tmp_path, monkeypatch):
    options = own_optimizer(config, tmp_path, "adagrad")
    stopped(config, *options, monkeypatch=monkeypatch, num_steps=20)
    own_optimizer(config, tmp_path, "sgd")
    with pytest.raises(MismatchError, match="optimizer was 'adagrad', now it is 'sgd'"):
        run(config, *options, resume=True)


def test_a_record_of_garbage_is_refused(config):
    run(config, "runner.train.epochs=1")
    found = manifest("ckpt/0")
    found["tables"]["learn"]["SparseFeatFactors"]["rows"] = "many"
    Path("ckpt/0/MANIFEST.json").write_text(json.dumps(found))
    with pytest.raises(CheckpointError, match="does not describe the tables of learn"):
        run(config, "mode=infer", "runner.infer.init_model_path=ckpt/0")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (".", "its parent is not older than itself"),
        ("/ckpt", "its parent: expected a relative reference"),
    ],
)
def test_a_chain_that_leads_to_itself_or_anywhere_is_refused(config, path, message):
    run(config, "runner.train.epochs=1")
    found = manifest("steps/epoch_0_batch_10")
    its = found["tables"]["learn"]["SparseFeatFactors"]
    its["parent"] = {"path": path, "fingerprint": its["fingerprint"]}
    Path("steps/epoch_0_batch_10/MANIFEST.json").write_text(json.dumps(found))
    with pytest.raises(CheckpointError, match=message):
        run(config, "mode=infer", "runner.infer.init_model_path=steps/epoch_0_batch_10")


def test_weights_are_taken_from_a_delta(config):
    run(config, *GROWING)
    tiny = ("hyper_parameters.optimizer={class: sgd, learning_rate: 1e-30}",)
    run(
        config,
        *tiny,
        "hyper_parameters.distributed_embedding=1",
        "runner.train.init_model_path=ckpt/3",
        "runner.train.save_checkpoint_path=again",
        "runner.train.save_step_path=",
        "runner.train.save_step_interval=-1",
        "runner.train.epochs=1",
    )
    assert kinds("ckpt/3") == ["delta"]
    before, after = tensors_of(Path("ckpt/3")), tensors_of(Path("again/0"))
    ids, rows = (
        [
            np.frombuffer(tensors[f"{TABLE}:{name}"].removesuffix(kind), dtype)
            for tensors in (before, after)
        ]
        for name, kind, dtype in (("ids", b"uint64", np.uint64), ("rows", b"float32", np.float32))
    )
    at = np.searchsorted(ids[1], ids[0])
    assert np.array_equal(rows[0].reshape(-1, 4), rows[1].reshape(-1, 4)[at])


def test_an_interval_without_a_place_to_save_is_refused(config):
    with pytest.raises(ConfigError, match="save_checkpoint_base_interval: given without save_ch"):
        run(
            config,
            "runner.train.save_checkpoint_path=",
            "runner.train.save_step_path=",
            "runner.train.save_step_interval=-1",
        )


def test_an_interval_that_cannot_be_is_refused(config):
    with pytest.raises(ConfigError, match=r"save_checkpoint_base_interval: expected .*greater"):
        run(config, "runner.train.save_checkpoint_base_interval=0")
