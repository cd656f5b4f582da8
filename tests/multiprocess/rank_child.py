"""One rank: trains jobs one after the other, as ``fleetrec run`` trains one."""

import json
import logging
import os
import sys
import time
from pathlib import Path

import torch
from fleetrec.parallel.ranks import Ranks
from fleetrec.train.evaluator import Evaluator
from fleetrec.train.passes import Surroundings
from fleetrec.train.trainer import Trainer

from fleetrec.cli.job import load_job
from fleetrec.cli.one_of_several import with_own_results
from fleetrec.config.pipeline_dialect.decode import Changes, decode_pipeline
from fleetrec.core.env import read_rank
from fleetrec.models.pipeline_classes import pipeline_classes
from fleetrec.train.events import Observers
from fleetrec.train.observers import JsonObserver
from fleetrec.train.run_folder import RunFolder


def train(job, ranks):
    """Train one job in its folder; without ranks, in this process alone."""
    os.chdir(job["folder"])
    run = run_of(job, ranks.count if ranks is not None else 1)
    if ranks is not None:
        run = with_own_results(run, index=ranks.index, count=ranks.count)
    folder = RunFolder(path=Path("logs"))
    is_chief = ranks is None or ranks.is_chief
    if is_chief:
        folder.begin(folder.run_id() or "one", fresh=False)
    around = Surroundings(
        clock=time.monotonic,
        run_id="one",
        folder=folder,
        observer=Observers(*([JsonObserver(folder.metrics)] if is_chief else [])),
    )
    if run.kind == "infer":
        Evaluator(run, around, company=ranks).infer()
    else:
        Trainer(run, around, company=ranks).train(resume=job.get("resume", False))


def run_of(job, num_ranks):
    """Return the first run of a job, of whose batch every rank takes its portion."""
    if job["path"].endswith(".config"):
        classes = pipeline_classes()
        decoded = decode_pipeline(
            Path(job["path"]), classes=classes, changes=Changes(), kind="train", seed=0
        )
        run = decoded.job.runs[0]
    else:
        run = load_job(job["path"], overrides=job.get("overrides", ())).runs[0]
    phases = []
    for phase in run.phases:
        size = phase.dataset.batch_size // num_ranks
        dataset = phase.dataset.model_copy(update={"batch_size": size})
        phases.append(phase.model_copy(update={"dataset": dataset}))
    update = {
        "phases": tuple(phases),
        "cluster": run.cluster.model_copy(update=job.get("cluster", {})),
        "save": run.save.model_copy(update={"checkpoint_interval": 1}),
    }
    return run.model_copy(update=update)


def main(jobs):
    logging.basicConfig(level=logging.INFO)
    torch.set_num_threads(1)
    ranks = Ranks(read_rank(), device=torch.device("cpu"), timeout_s=60)
    for job in json.loads(jobs):
        train(job, ranks)
    ranks.close()


if __name__ == "__main__":
    main(sys.argv[1])
