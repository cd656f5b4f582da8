"""One rank: trains jobs one after the other, as ``fleetrec run`` trains one."""

import json
import logging
import os
import sys
import time
from pathlib import Path

import torch

from fleetrec.cli.job import load_job
from fleetrec.cli.process import with_worker_dump_path
from fleetrec.config.pipeline_dialect.decode import Changes, decode_pipeline
from fleetrec.core.env import read_place
from fleetrec.models.pipeline_classes import pipeline_classes
from fleetrec.parallel.rank_comm import RankComm
from fleetrec.parallel.rank_group import RankGroup
from fleetrec.parallel.solo import SoloGroup
from fleetrec.train.context import RunContext
from fleetrec.train.events import Observers
from fleetrec.train.observers import JsonObserver
from fleetrec.train.run import Evaluation, Training
from fleetrec.train.run_folder import RunFolder


def train(job, comm):
    """Train one job in its folder; without ranks, in this process alone."""
    os.chdir(job["folder"])
    run = run_of(job, comm.size if comm is not None else 1)
    group = SoloGroup(torch.device("cpu")) if comm is None else RankGroup(comm, run.cluster)
    run = with_worker_dump_path(run, group)
    folder = RunFolder(path=Path("logs"))
    if group.is_chief:
        folder.begin(folder.run_id() or "one", fresh=False)
    context = RunContext(
        clock=time.monotonic,
        run_id="one",
        folder=folder,
        observer=Observers(*([JsonObserver(folder.metrics)] if group.is_chief else [])),
    )
    if run.kind == "infer":
        Evaluation(run, group, context).run()
    else:
        Training(run, group, context).run(resume=job.get("resume", False))


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
    }
    return run.model_copy(update=update)


def main(jobs):
    logging.basicConfig(level=logging.INFO)
    torch.set_num_threads(1)
    comm = RankComm(read_place(), device=torch.device("cpu"), timeout_s=60)
    for job in json.loads(jobs):
        train(job, comm)
    comm.close()


if __name__ == "__main__":
    main(sys.argv[1])
