"""Ranks that make every step together give what one process gives."""

import json

import pytest

from making import make_data, make_job, write_job
from multiprocess.rank_child import train
from multiprocess.ranking import assert_close, run_ranks

TABLES = {
    "fixed": {},
    "growing": {"distributed_embedding": 1, "eviction": {"max_unseen_days": 1}},
    "admitted": {"distributed_embedding": 1, "admission": {"kind": "count", "threshold": 3}},
}
YAML_MODELS = ["rank/dnn", "rank/deepfm", "rank/din", "multitask/mmoe"]
NUM_STEPS = 200


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to which this process comes back after a job that goes elsewhere."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def small_job(folder, *, tables="fixed", placement="auto", **runner):
    """A job whose last batch is small, over files of different sizes."""
    job = make_job(folder / "data", batch_size=32, save_checkpoint_interval=1, **runner)
    job["hyper_parameters"] |= TABLES[tables]
    make_data(folder / "data", num_samples=1010, num_files=3)
    (folder / "data/part-3").write_text((folder / "data/part-0").read_text()[:-1].split("\n")[0])
    write_job(job, folder / "job.yaml")
    return {"folder": str(folder), "path": str(folder / "job.yaml"), "placement": placement}


def last_figures(folder):
    lines = (folder / "logs/metrics.jsonl").read_text().splitlines()
    passes = [json.loads(line) for line in lines if json.loads(line)["event"] == "pass"]
    return passes[-1]["figures"]


def test_ranks_end_with_the_weights_and_figures_of_one_process(folder):
    kinds = [
        ("fixed", "replicated"),
        ("fixed", "sharded"),
        ("growing", "sharded"),
        ("admitted", "sharded"),
    ]
    jobs = {
        (kind, name): small_job(folder / "-".join(kind) / name, tables=kind[0], placement=kind[1])
        for kind in kinds
        for name in ("alone", "ranks", "again")
    }
    for kind in kinds[:3]:
        train(jobs[kind, "alone"], None)
    # Alone, an id counts from the sight that is due; together, from the step that brings it.
    run_ranks([jobs[kinds[3], "alone"]], count=1, folder=folder / "logs1")
    together = [jobs[kind, name] for kind in kinds for name in ("ranks", "again")]
    run_ranks(together, count=2, folder=folder / "logs2")
    for kind in kinds:
        place = folder / "-".join(kind)
        for epoch in ("0", "1"):
            assert_close(place / "ranks/ckpt" / epoch, place / "alone/ckpt" / epoch, atol=1e-5)
            assert_close(place / "ranks/ckpt" / epoch, place / "again/ckpt" / epoch, atol=0)
        ours, theirs = last_figures(place / "ranks"), last_figures(place / "alone")
        assert ours == pytest.approx(theirs, abs=1e-4)
        assert ours["SAMPLES"] == 1011
