"""Pipelines on several processes of one machine: servers, and ranks."""

import csv
import json
import subprocess
import sys

import numpy as np
import pytest

from fleetrec.checkpoint.folder import open_folder
from fleetrec.checkpoint.table_view import open_tables
from fleetrec.checkpoint.tensors import read_tensors
from fleetrec.export.follower import Follower
from fleetrec.export.manifest import open_model
from making_pipelines import WIDE_AND_DEEP, make_rows, model_config, write_pipeline

pytestmark = pytest.mark.multiprocess

NUM_STEPS = 20
TOGETHER = 64
MODEL = model_config(
    "DeepFM",
    "deepfm { dnn { hidden_units: [16, 8] use_bn: false } "
    "final_dnn { hidden_units: [16] use_bn: false } }",
    groups=WIDE_AND_DEEP,
)
DECAYING = """
optimizer_config { adam_optimizer { learning_rate { exponential_decay_learning_rate {
  initial_learning_rate: 0.01 decay_steps: 5 decay_factor: 0.5 } } } }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data of one process, and the same for two workers, of which each has half of every batch."""
    folder = tmp_path_factory.mktemp("pipelines")
    rows = make_rows(NUM_STEPS * TOGETHER, seed=10)
    halves = [[], []]
    for number, row in enumerate(rows):
        halves[number % TOGETHER * 2 // TOGETHER].append(row)
    parts = {"all.csv": rows, "one.csv": halves[0], "two.csv": halves[1]}
    for name, its in {**parts, "eval.csv": make_rows(300, seed=11)}.items():
        with (folder / name).open("w", newline="") as stream:
            csv.writer(stream).writerows(its)
    return folder


@pytest.fixture(scope="module")
def alone(folder):
    return train(folder, "alone", files=["all.csv"], num_steps=NUM_STEPS)


def train(folder, name, *options, files, num_steps, strategy="", batch_size=TOGETHER):
    place = folder / name
    place.mkdir()
    paths = {"train": folder / files[0], "eval": folder / "eval.csv"}
    pipeline = write_pipeline(
        place,
        MODEL,
        paths=paths,
        num_steps=num_steps,
        train_config=DECAYING + strategy,
    )
    done = subprocess.run(
        [
            *(sys.executable, "-m", "fleetrec.train_eval", "--pipeline_config_path", str(pipeline)),
            *(word for file in files for word in ("--train_input_path", str(folder / file))),
            *options,
            f"--data_config.batch_size={batch_size}",
        ],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return place / "model"


def assert_same_model(ours, theirs):
    for model in (ours, theirs):
        assert (model / f"model.ckpt-{NUM_STEPS}").is_dir()
    mine, others = (
        read_tensors(open_folder(m / f"model.ckpt-{NUM_STEPS}", kind="checkpoint"), "model")
        for m in (ours, theirs)
    )
    for kind in ("model", "optimizer"):
        assert mine[kind].keys() == others[kind].keys()
        for key, value in mine[kind].items():
            np.testing.assert_allclose(value, others[kind][key], atol=1e-5, err_msg=key)
    tables = [open_tables(m / f"model.ckpt-{NUM_STEPS}") for m in (ours, theirs)]
    assert tables[0].keys() == tables[1].keys()
    for key in tables[0]:
        rows = [rows_of(one[key]) for one in tables]
        assert rows[0].keys() == rows[1].keys()
        for row, weights in rows[0].items():
            np.testing.assert_allclose(weights, rows[1][row], atol=1e-5)
    results = [json.loads((m / "eval_result.txt").read_text()) for m in (ours, theirs)]
    assert results[0] == pytest.approx(results[1], abs=1e-4)


def rows_of(table):
    found = {}
    for block in table.blocks():
        found.update(zip(block["ids"].tolist(), block["rows"], strict=True))
    return found


def test_servers_give_what_one_process_gives(folder, alone):
    servers = train(
        folder,
        "servers",
        *("--num_workers", "2", "--num_servers", "2"),
        files=["one.csv", "two.csv"],
        num_steps=2 * NUM_STEPS,  # batches of both workers
        strategy="sync_replicas: true",
        batch_size=TOGETHER // 2,
    )
    assert_same_model(servers, alone)
    assert (servers / "logs/server.1").is_file()


@pytest.mark.parametrize(
    "strategy",
    [pytest.param("HorovodStrategy", marks=pytest.mark.slow), "EmbeddingParallelStrategy"],
)
def test_ranks_give_what_one_process_gives(folder, alone, strategy):
    ranks = train(
        folder,
        strategy,
        *("--num_workers", "2"),
        files=["all.csv"],
        num_steps=NUM_STEPS,
        strategy=f"train_distribute: {strategy}",
        batch_size=TOGETHER // 2,
    )
    assert_same_model(ranks, alone)
    assert (ranks / "logs/worker.1").is_file()


SERVERS = ("--num_workers", "2", "--num_servers", "2")


@pytest.mark.parametrize(
    ("name", "options", "strategy"),
    [
        pytest.param(
            *("served_by_servers", SERVERS, "sync_replicas: true"), marks=pytest.mark.slow
        ),
        ("served_by_ranks", SERVERS[:2], "train_distribute: EmbeddingParallelStrategy"),
    ],
)
def test_serving_models_hold_the_rows_of_all_processes(folder, name, options, strategy):
    model = train(
        folder,
        name,
        *(*options, "--train_config.save_checkpoints_steps=1000"),
        files=["one.csv", "two.csv"] if "sync" in strategy else ["all.csv"],
        num_steps=2 * NUM_STEPS if "sync" in strategy else NUM_STEPS,
        strategy=f"{strategy} incr_save_config {{ sparse_save_steps: 4 fs {{}} }}",
        batch_size=TOGETHER // 2,
    )
    follower = Follower(model / "incr_save")
    assert (follower.version.key, follower.version.id) == (4, NUM_STEPS)
    for step in range(8, NUM_STEPS + 1, 4):
        _, manifest = open_model(model / "incr_save" / str(step))
        assert {table.content for table in manifest.tables.values()} == {"changes"}
    for key, table in open_tables(model / f"model.ckpt-{NUM_STEPS}").items():
        served = follower._predictor._tables._tables[key.removeprefix("model/")].snapshot()
        expected = rows_of(table)
        assert served["ids"].view(np.uint64).tolist() == sorted(expected)
        for one, row in zip(served["ids"].tolist(), served["rows"], strict=True):
            np.testing.assert_array_equal(row, expected[one])
