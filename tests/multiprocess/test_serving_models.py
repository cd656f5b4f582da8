"""Serving models of whole runs: killed at any moment, and with servers."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from fleetrec.checkpoint.folder import open_folder
from fleetrec.cli.job import load_job
from fleetrec.core.env import FAULTS, environment_with
from fleetrec.export.follower import Follower
from fleetrec.export.manifest import open_model
from fleetrec.export.row_files import read_removed, read_rows
from fleetrec.parallel.solo import SoloGroup
from fleetrec.train.checkpoints import read_phase
from fleetrec.train.phase import build_phase
from making import make_data, make_job, write_job
from making_phases import evaluate
from making_serving import feeds_of
from multiprocess.cluster import LocalCluster

pytestmark = pytest.mark.multiprocess

TESTS = Path(__file__).parents[1]
CHILD = "multiprocess.serving_child"
WORKER = {  # fault points work in jobs of several processes
    "TRAINING_ROLE": "TRAINER",
    "PADDLE_TRAINER_ID": "0",
    "PADDLE_TRAINERS_NUM": "1",
    "PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1:7000",
}
LAST = 15  # three epochs of five steps


def make_run(folder):
    data = make_data(folder / "data", num_samples=75)
    job = make_job(data, epochs=3, batch_size=16)
    job["hyper_parameters"] |= {
        "distributed_embedding": 1,
        "admission": {"kind": "count", "threshold": 2},
        "eviction": {"max_rows": 30},
    }
    return write_job(job, folder / "job.yaml")


def train(job, *, resume=False, faults=None):
    added = {} if faults is None else {FAULTS: str(faults), **WORKER}
    return subprocess.run(
        [sys.executable, "-m", CHILD, str(job), "resume" if resume else "-"],
        cwd=TESTS,
        env=environment_with(added, unless_set={}),
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )


def entries(folder):
    """Return id, key and path of every serving model, in order."""
    found = []
    for name in ("base", "patch"):
        for line in (folder / "serving" / f"{name}_donefile.txt").read_text().splitlines():
            entry = json.loads(line)
            found.append((name, entry["id"], entry["key"], entry["path"]))
    return found


def content_of(url):
    """Return the rows of a serving model, and the ids that it removes."""
    folder, manifest = open_model(url)
    (table,) = manifest.tables.values()
    rows = {}
    for ids, its in read_rows(folder, table):
        rows |= dict(zip(ids.tolist(), map(tuple, its.tolist()), strict=True))
    return manifest.type, table.content, rows, read_removed(folder, table).tolist()


def assert_answers(folder, job, *, step=LAST):
    """Check that a follower answers as a trainer that has loaded the last checkpoint."""
    run = load_job(str(job), overrides=()).runs[0]
    phase = build_phase(run.phases[0], run, SoloGroup(torch.device("cpu")))
    checkpoint = open_folder(folder / "ckpt" / f"step_{step}", kind="checkpoint")
    phase.state.load(read_phase(checkpoint, phase.name), exact=False)
    follower = Follower(folder / "serving")
    assert follower.version.id == step
    assert follower.lag_s == 0
    with phase.loader.epoch(0) as batches:
        for batch in batches:
            found = follower.predict(feeds_of(batch, ["dense_feature", "1", "2", "3"]))
            for name, value in evaluate(phase, batch).items():
                np.testing.assert_allclose(found[name], value.numpy(), atol=1e-6, rtol=0)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken")
    job = make_run(folder)
    done = train(job)
    assert done.returncode == 0, done.stderr
    return folder


def test_serving_models_follow_a_run_in_one_process(unbroken):
    assert [int(number) for _, number, _, _ in entries(unbroken)] == [4, 5, 8, 10, 12, 15]
    assert {key for _, _, key, _ in entries(unbroken)} == {"4"}
    models = [content_of(unbroken / "serving" / path) for _, _, _, path in entries(unbroken)]
    assert [kind for kind, *_ in models] == ["base"] + ["delta"] * 5
    assert {content for _, content, *_ in models[1:]} == {"changes"}
    assert any(removed for *_, removed in models)
    assert_answers(unbroken, unbroken / "job.yaml")


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("publish", 2),  # of the first serving model: its checkpoint comes before
        ("serving_rows", 1),
        ("serving_published", 3),
        ("donefile", 1),
        pytest.param("publish", 5, marks=pytest.mark.slow),
        pytest.param("serving_rows", 3, marks=pytest.mark.slow),
        pytest.param("serving_published", 1, marks=pytest.mark.slow),
        pytest.param("donefile", 3, marks=pytest.mark.slow),
    ],
)
def test_a_killed_run_publishes_what_an_unbroken_one_does(tmp_path, unbroken, moment, number):
    job = make_run(tmp_path)
    order = tmp_path / "faults" / "worker.0" / moment
    order.parent.mkdir(parents=True)
    order.write_text(f"{number} kill")
    done = train(job, faults=tmp_path / "faults")
    assert done.returncode == -9, done.stderr
    assert not order.exists()
    done = train(job, resume=True, faults=tmp_path / "faults")
    assert done.returncode == 0, done.stderr
    assert entries(tmp_path) == entries(unbroken)
    for _, _, _, path in entries(tmp_path):
        ours, theirs = (content_of(folder / "serving" / path) for folder in (tmp_path, unbroken))
        assert ours == theirs
    assert_answers(tmp_path, job)


def test_serving_models_follow_a_run_with_servers(tmp_path):
    job = make_run(tmp_path)
    with LocalCluster(tmp_path / "cluster", num_workers=1, num_servers=2) as cluster:
        cluster.start_worker(0, job, mode="-", module=CHILD)
        cluster.wait()
    models = [content_of(tmp_path / "serving" / path) for _, _, _, path in entries(tmp_path)]
    assert [kind for kind, *_ in models] == ["base"] + ["delta"] * 5
    assert {content for _, content, *_ in models[1:]} == {"changes"}
    assert any(removed for *_, removed in models)
    assert_answers(tmp_path, job)
