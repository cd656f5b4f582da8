"""A loaded model and its deltas; that answers are those of training is tested with all models."""

import json
import threading

import numpy as np
import pytest

from fleetrec.core.errors import CheckpointError, DataError
from fleetrec.export.predictor import Predictor
from making_serving import DAY_S, TABLE, ServingRun, feeds_of

NAMES = ("dense_feature", "1", "2", "3")


@pytest.fixture
def run(tmp_path):
    run = ServingRun(tmp_path)
    for _ in range(4):
        run.make_version()
    return run


def test_deltas_are_applied_in_order(run, tmp_path):
    predictor = Predictor(tmp_path / "model-1")
    assert predictor.version.id == DAY_S
    for number in (2, 3, 4):
        predictor.apply(tmp_path / f"model-{number}")
        assert predictor.version.id == number * DAY_S
    assert predictor.num_rows == len(run.live_ids())
    run.assert_answers(predictor)


def test_a_delta_of_another_version_is_refused_with_both(run, tmp_path):
    predictor = Predictor(tmp_path / "model-1")
    with pytest.raises(CheckpointError) as caught:
        predictor.apply(tmp_path / "model-3")
    assert "is a delta of the model with id 172800, fingerprint " in str(caught.value)
    assert f"but the loaded one has id 86400, fingerprint {predictor.fingerprint}" in str(
        caught.value
    )
    predictor.apply(tmp_path / "model-2")  # nothing has changed


def test_a_delta_that_was_prepared_for_an_older_version_is_refused(run, tmp_path):
    predictor = Predictor(tmp_path / "model-1")
    prepared = predictor.prepare(tmp_path / "model-2")
    predictor.apply(prepared)
    with pytest.raises(CheckpointError, match="the delta: is a delta of the model with id 86400"):
        predictor.apply(prepared)


def test_a_delta_is_no_model_and_a_base_is_no_delta(run, tmp_path):
    with pytest.raises(CheckpointError, match="model-2: is a delta, which is no model by itself"):
        Predictor(tmp_path / "model-2")
    with pytest.raises(CheckpointError, match="model-1: is a base, not a delta"):
        Predictor(tmp_path / "model-1").apply(tmp_path / "model-1")


def test_a_damaged_delta_changes_nothing(run, tmp_path):
    predictor = Predictor(tmp_path / "model-1")
    feeds = feeds_of(run.batches[0], NAMES)
    before = predictor.predict(feeds)["predict"]
    damaged = next((tmp_path / "model-2" / "tables" / TABLE).glob("rows-*"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=r"rows-00000.safetensors: damaged"):
        predictor.apply(tmp_path / "model-2")
    assert predictor.version.id == DAY_S
    np.testing.assert_array_equal(predictor.predict(feeds)["predict"], before)


@pytest.mark.parametrize("change", ["version", "type", "parent"])
def test_a_manifest_that_was_changed_is_refused(run, tmp_path, change):
    path = tmp_path / "model-2" / "MANIFEST.json"
    manifest = json.loads(path.read_text())
    manifest[change] = {"version": None, "type": "base", "parent": None}[change]
    path.write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match="damaged: its fingerprint does not match"):
        Predictor(tmp_path / "model-1").apply(tmp_path / "model-2")


def test_every_answer_is_of_one_version_while_deltas_are_applied(run, tmp_path):
    feeds = feeds_of(run.batches[0], NAMES)
    names = [f"model-{number}" for number in (1, 2, 3, 4)]
    expected = []
    alone = Predictor(tmp_path / names[0])
    for name in names:
        if name != names[0]:
            alone.apply(tmp_path / name)
        expected.append(alone.predict(feeds)["predict"])
    shared = Predictor(tmp_path / names[0])
    answers, may_end = [], threading.Event()

    def ask():
        while not may_end.is_set():
            answers.append(shared.predict(feeds)["predict"])

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for name in names[1:]:
        shared.apply(tmp_path / name)
    may_end.set()
    for thread in threads:
        thread.join()
    assert answers
    for answer in answers:
        assert any(np.allclose(answer, one, atol=1e-7, rtol=0) for one in expected)


def test_a_graph_that_onnxruntime_cannot_load_is_refused(run, tmp_path, monkeypatch):
    model = run.publisher._model
    monkeypatch.setattr(type(model), "encode_graph", lambda *_: b"no graph")
    run.make_version(kind="base")
    with pytest.raises(CheckpointError, match=r"model.onnx: onnxruntime .* cannot load it"):
        Predictor(tmp_path / "model-5")


def test_wrong_feeds_are_refused(run, tmp_path):
    predictor = Predictor(tmp_path / "model-1")
    feeds = feeds_of(run.batches[0], NAMES)
    with pytest.raises(DataError, match="expected the feeds"):
        predictor.predict({"1": [[1]]})
    with pytest.raises(DataError, match=r"no output is called \['odds'\]"):
        predictor.predict(feeds, ["odds"])
    with pytest.raises(DataError, match="samples, others"):
        predictor.predict({**feeds, "2": [[1]]})
    with pytest.raises(DataError, match=r"weights are for feeds of ids.*\['dense_feature'\]"):
        predictor.predict(feeds, weights={"dense_feature": [[1.0]]})
