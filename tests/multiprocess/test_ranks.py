"""Ranks that make every step together give what one process gives."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fleetrec.checkpoint.folder import open_folder
from making import make_data, make_job, write_job
from making_pipelines import WIDE_AND_DEEP, model_config, write_data, write_pipeline
from multiprocess.rank_child import train
from multiprocess.ranking import assert_close, run_ranks, share_beyond

TABLES = {
    "fixed": {},
    "growing": {"distributed_embedding": 1, "eviction": {"max_unseen_days": 1}},
    "admitted": {"distributed_embedding": 1, "admission": {"kind": "count", "threshold": 3}},
    "own": {"sparse_optimizer": {"class": "rowwise_adagrad", "learning_rate": 0.05, "l2": 0.01}},
}
# Models, and the first epoch behind which they have made 200 steps.
MODELS = {"rank/dnn": 2, "rank/deepfm": 3, "rank/din": 2, "multitask/mmoe": 5}
GROWING = "hyper_parameters.distributed_embedding=1"
# At the rates of the zoo, wide networks make 1e-3 of one rounding within 200 steps, also alone.
CALM = ["hyper_parameters.optimizer.class=SGD", "hyper_parameters.optimizer.learning_rate=0.02"]
RUNNERS = {"rank/dnn": "runner.single_cpu_train"}
# A ReLU whose input is as near to 0 as a rounding makes 1e-5 of it at once, in few weights. One of
# the millions of inputs of a run is so with one seed of three.
MAX_FAR = 1e-3
NUM_STEPS = 200
PIPELINE = model_config(
    "DeepFM",
    "deepfm { dnn { hidden_units: [16, 8] use_bn: false } "
    "final_dnn { hidden_units: [16] use_bn: false } }",
    groups=WIDE_AND_DEEP,
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to which this process comes back after a job that goes elsewhere."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def small_job(folder, *, tables="fixed", cluster=None, **runner):
    """A job whose last batch is small, over files of different sizes."""
    job = make_job(folder / "data", batch_size=32, save_checkpoint_interval=1, **runner)
    job["hyper_parameters"] |= TABLES[tables]
    make_data(folder / "data", num_samples=1010, num_files=3)
    (folder / "data/part-3").write_text((folder / "data/part-0").read_text()[:-1].split("\n")[0])
    write_job(job, folder / "job.yaml")
    return {"folder": str(folder), "path": str(folder / "job.yaml"), "cluster": cluster or {}}


def last_figures(folder):
    lines = (folder / "logs/metrics.jsonl").read_text().splitlines()
    passes = [json.loads(line) for line in lines if json.loads(line)["event"] == "pass"]
    return passes[-1]["metrics"]


def test_ranks_end_with_the_weights_and_figures_of_one_process(folder):
    kinds = [
        ("fixed", "replicated"),
        ("fixed", "sharded"),
        ("growing", "sharded"),
        ("own", "replicated"),
        ("own", "sharded"),
        ("admitted", "sharded"),
    ]
    jobs = {}
    for tables, placement in kinds:
        for name in ("alone", "ranks", "again"):  # the last with ids that travel ahead
            place = folder / f"{tables}-{placement}" / name
            cluster = {"placement": placement, "exchange_ahead": name == "again"}
            job = small_job(place, tables=tables, cluster=cluster)
            jobs[(tables, placement), name] = job
    for kind in kinds[:-1]:
        train(jobs[kind, "alone"], None)
    # Alone, an id counts from the sight that is due; together, from the step that brings it.
    run_ranks([jobs[kinds[-1], "alone"]], count=1, folder=folder / "logs1")
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


def zoo_jobs(folder, name):
    """The zoo's own jobs, with tables of both kinds in both places, and a pipeline."""
    found = {}
    for model, epoch in MODELS.items():
        for placement in ("replicated", "sharded"):
            runner = RUNNERS.get(model, "runner.train_runner")
            keys = ("epochs", "save_checkpoint_interval")
            epochs = [f"{runner}.{key}={epoch + 1}" for key in keys]
            overrides = [*CALM, *epochs]
            job = {"path": model, "cluster": {"placement": placement}, "overrides": overrides}
            checkpoint = f"increment_{model.rpartition('/')[2]}/{epoch}"
            found[f"{model}-{placement}"] = (job, checkpoint)
            if model in ("rank/dnn", "rank/deepfm"):
                found[f"{model}-{placement}-growing"] = (
                    {**job, "overrides": [*overrides, GROWING]},
                    checkpoint,
                )
    for placement in ("replicated", "sharded"):
        place = folder / f"pipeline-{placement}" / name
        place.mkdir(parents=True)
        paths = write_data(place, num_train=NUM_STEPS * 64, num_eval=640)
        path = write_pipeline(place, PIPELINE, paths=paths, num_steps=NUM_STEPS)
        job = {"path": str(path), "cluster": {"placement": placement}}
        found[f"pipeline-{placement}"] = (job, f"model/model.ckpt-{NUM_STEPS}")
    for kind, (job, _) in found.items():
        place = folder / kind / name
        place.mkdir(parents=True, exist_ok=True)
        job["folder"] = str(place)
    return found


@pytest.mark.slow
def test_every_model_ends_alike_on_any_number_of_ranks(folder):
    alone = zoo_jobs(folder, "alone")
    for job, _ in alone.values():
        train(job, None)
    for count in (1, 2, 4):
        for name in (f"ranks{count}", f"again{count}"):
            jobs = [job for job, _ in zoo_jobs(folder, name).values()]
            run_ranks(jobs, count=count, folder=folder / "logs" / name)
        for kind, (_, checkpoint) in alone.items():
            place = folder / kind
            ours = place / f"ranks{count}" / checkpoint
            position = open_folder(ours, kind="checkpoint").meta["progress"]
            assert position["step"] >= NUM_STEPS
            if count == 1:
                assert_close(ours, place / "alone" / checkpoint, atol=0)
            else:
                assert_close(ours, place / "alone" / checkpoint, atol=1e-4)
                far = share_beyond(ours, place / "alone" / checkpoint, atol=1e-5)
                assert far <= MAX_FAR, kind
            assert_close(ours, place / f"again{count}" / checkpoint, atol=0)


def predictions(folder):
    """Return what a run has predicted, in an order that does not depend on the ranks."""
    found = []
    for path in sorted(folder.glob("results*")):
        for batch in json.loads(path.read_text()):
            found += batch["logit"]
    return np.sort(np.array(found, np.float64).reshape(-1))


@pytest.mark.slow
def test_what_four_ranks_wrote_is_read_by_any_number_and_by_servers(folder):
    place = folder / "four"
    job = small_job(place, tables="growing", cluster={"placement": "sharded"})
    run_ranks([job], count=4, folder=folder / "logs")
    assert len(list((place / "ckpt/1/learn/tables").rglob("*.snap"))) == 4
    judging = ["mode=infer", f"runner.infer.init_model_path={place / 'ckpt/1'}"]
    found = {}
    for name in ("alone", "one", "two", "three", "servers"):
        target = folder / name
        target.mkdir()
        keys = [*judging, f"runner.infer.runner_result_dump_path={target / 'results'}"]
        jobs = [{**job, "folder": str(target), "overrides": keys}]
        if name == "alone":
            train(jobs[0], None)
        elif name == "servers":
            judge_with_servers(Path(job["path"]), target, keys)
        else:
            run_ranks(jobs, count=["one", "two", "three"].index(name) + 1, folder=target / "logs")
        found[name] = predictions(target)
        assert len(found[name]) == 1011
        np.testing.assert_allclose(found[name], found["alone"], atol=1e-6)


def judge_with_servers(job, folder, keys):
    more = ("class=local_cluster_infer", "worker_num=2", "server_num=2")
    options = [*keys, *(f"runner.infer.{key}" for key in more)]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "fleetrec", "run", "-m", str(job)),
            *(word for key in options for word in ("-o", key)),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
