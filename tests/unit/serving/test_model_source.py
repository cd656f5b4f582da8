"""The model of a server: loaded again, or followed."""

import shutil
import sys
import time

import pytest

from fleetrec.core.errors import CheckpointError, UnavailableError
from fleetrec.serving.model_source import FolderModel, FollowedModel, version_of
from making_served import make_loaded
from making_serving import DAY_S, ServingRun

DEADLINE_S = 60.0


def wait_until(condition):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    run = ServingRun(folder)
    for _ in range(2):
        run.make_version()
    run.make_version(kind="base")
    return folder


def test_a_folder_is_loaded_again_on_request(published, tmp_path):
    place = tmp_path / "model"
    shutil.copytree(published / "model-1", place)
    source = FolderModel(str(place), make_loaded, num_threads=1)
    first = source.loaded
    assert version_of(first.predictor.manifest) == str(DAY_S)
    assert source.lag_s is None
    shutil.rmtree(place)
    with pytest.raises(CheckpointError):
        source.reload()
    assert source.loaded is first
    shutil.copytree(published / "model-3", place)
    source.reload()
    assert version_of(source.loaded.predictor.manifest) == str(3 * DAY_S)
    assert version_of(first.predictor.manifest) == str(DAY_S)
    source.close()


def test_a_delta_is_no_model_to_serve(published):
    with pytest.raises(CheckpointError, match="is a delta, which is no model by itself"):
        FolderModel(str(published / "model-2"), make_loaded, num_threads=1)


def test_a_run_is_followed_from_its_first_model_on(published, tmp_path):
    source = FollowedModel(str(tmp_path), make_loaded, num_threads=1, poll_s=0.01)
    try:
        assert source.loaded is None
        shutil.copytree(published, tmp_path, dirs_exist_ok=True)
        wait_until(lambda: source.loaded is not None and source.lag_s == 0)
        assert version_of(source.loaded.predictor.manifest) == str(3 * DAY_S)
        assert source.loaded is source.loaded  # the signature is made once
        source.reload()
    finally:
        source.close()


def test_a_model_that_cannot_be_loaded_is_tried_again(published, caplog, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    source = FollowedModel(str(published), make_loaded, num_threads=1, poll_s=0.01)
    try:
        wait_until(lambda: "needs onnxruntime" in caplog.text)
        assert (source.loaded, source.lag_s) == (None, None)
        with pytest.raises(UnavailableError, match="the first model is being loaded"):
            source.reload()
        monkeypatch.undo()
        wait_until(lambda: source.loaded is not None)
    finally:
        source.close()
    assert len(caplog.records) == 1
