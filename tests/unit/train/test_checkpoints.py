"""Checkpoints are found by folder, by step and by phase."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from fleetrec.checkpoint.folder import open_folder, write_folder
from fleetrec.core.errors import CheckpointError
from fleetrec.core.progress import Progress
from fleetrec.train.checkpoints import (
    checkpoints_below,
    matching_phase,
    open_checkpoint,
    open_newest,
    progress_in,
    published_below,
    step_checkpoints,
    url_of,
    worker_progress_in,
)

PLAIN = Progress(pass_index=1, step=7).to_dict()


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def publish(url, *, phases=(), **meta):
    contents = {f"{phase}/model.safetensors": b"" for phase in phases}
    write_folder(url, contents=contents, meta={"kind": "checkpoint", "progress": PLAIN, **meta})
    return open_folder(url, kind="checkpoint")


def test_what_is_not_published_is_not_found():
    publish("all/a")
    publish("all/.hidden")
    Path("all/unfinished").mkdir()
    assert published_below("all") == ["all/a"]
    assert published_below("missing") == []


def test_epochs_are_in_the_order_of_their_numbers():
    for name in ("10", "9", "best"):
        publish(f"all/{name}")
    assert checkpoints_below("all") == ["all/9", "all/10"]
    assert checkpoints_below("all/9") == ["all/9"]


def test_a_folder_that_is_missing_is_named():
    with pytest.raises(CheckpointError, match="missing: no such checkpoint"):
        checkpoints_below("missing")


def test_steps_are_in_the_order_of_their_numbers_the_latest_first():
    for step in (9, 100, 20):
        publish(f"all/model.ckpt-{step}")
    publish("all/model.ckpt-best")
    found = step_checkpoints("all", prefix="model.ckpt-")
    assert found == ["all/model.ckpt-100", "all/model.ckpt-20", "all/model.ckpt-9"]
    assert url_of(open_newest("all")) == "all/model.ckpt-100"
    assert url_of(open_newest("all/model.ckpt-9")) == "all/model.ckpt-9"


def test_a_folder_without_steps_says_what_was_expected():
    publish("all/0")
    with pytest.raises(CheckpointError, match=r"all: holds no checkpoint model\.ckpt-<step>"):
        open_newest("all")


def test_a_folder_of_checkpoints_is_not_one_and_the_newest_is_proposed():
    publish("all/0")
    publish("all/1")
    with pytest.raises(CheckpointError, match="several checkpoints; did you mean all/1"):
        open_checkpoint("all")


def test_progress_is_read_under_its_older_names_too():
    assert progress_in(publish("new")) == Progress(pass_index=1, step=7)
    write_folder("old", contents={}, meta={"kind": "checkpoint", "position": PLAIN})
    assert progress_in(open_folder("old", kind="checkpoint")).step == 7
    assert worker_progress_in(publish("alone")) == ()
    workers = publish("workers", worker_progress=[PLAIN, {**PLAIN, "step": 9}])
    assert [one.step for one in worker_progress_in(workers)] == [7, 9]


def test_a_checkpoint_without_progress_is_damaged():
    write_folder("bad", contents={}, meta={"kind": "checkpoint"})
    with pytest.raises(CheckpointError, match="bad: damaged: it has no progress"):
        progress_in(open_folder("bad", kind="checkpoint"))


def phase_of(name, path):
    return SimpleNamespace(options=SimpleNamespace(name=name, model_path=Path(path)))


@pytest.mark.parametrize(
    ("name", "path", "expected"),
    [
        ("first", "elsewhere/c/model.py", "first"),  # by name
        ("judge", "elsewhere/b/model.py", "second"),  # by model, wherever its folder is now
    ],
)
def test_the_weights_of_a_phase_are_those_of_its_name_or_of_its_model(name, path, expected):
    models = {"first": "a/model.py", "second": "b/model.py"}
    checkpoint = publish("c", phases=models, models=models)
    assert matching_phase(checkpoint, phase_of(name, path)) == expected


def test_a_phase_that_fits_none_of_several_is_refused_with_their_names():
    checkpoint = publish("c", phases=("first", "second"))
    with pytest.raises(CheckpointError, match="holds the phases first, second; none of them is"):
        matching_phase(checkpoint, phase_of("judge", "x/model.py"))


def test_the_only_phase_fits_any_name():
    checkpoint = publish("c", phases=["first"], models={"first": "a/model.py"})
    assert matching_phase(checkpoint, phase_of("judge", "x/model.py")) == "first"
