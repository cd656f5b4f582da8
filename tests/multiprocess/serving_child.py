"""A process that publishes serving models while it trains: alone, or as a worker of servers."""

import logging
import os
import sys
import time
from pathlib import Path

import torch

from fleetrec.cli.job import load_job
from fleetrec.config.rules import ResumeOptions, Rule, ServingRule
from fleetrec.core.place import Place
from fleetrec.parallel.join import join_group
from fleetrec.parallel.solo import SoloGroup
from fleetrec.train.context import RunContext
from fleetrec.train.events import Observers
from fleetrec.train.observers import JsonObserver
from fleetrec.train.run import Training
from fleetrec.train.run_folder import RunFolder

SERVING = ServingRule(path="serving/{step}", folder="serving", id_by="step")


def with_serving(run, *, every=4):
    """Return the run with serving models every few steps and after every pass."""
    rules = tuple(
        Rule(when=when, every=number, do="serving", path="ckpt/step_{step}", serving=SERVING)
        for when, number in (("steps", every), ("passes", 1))
    )
    return run.model_copy(update={"rules": rules, "resume": ResumeOptions(folders=("ckpt",))})


def main(job, resume="", index="", num_workers="", endpoints=""):
    """Train; without endpoints of servers in this process alone."""
    logging.basicConfig(level=logging.INFO)
    path = Path(job).resolve()
    os.chdir(path.parent)
    run = with_serving(load_job(str(path), overrides=()).runs[0])
    place, group = None, SoloGroup(torch.device("cpu"))
    if endpoints:
        run = run.model_copy(
            update={"cluster": run.cluster.model_copy(update={"strategy": "sync"})}
        )
        place = Place(
            rank=int(index),
            num_workers=int(num_workers),
            server_endpoints=tuple(endpoints.split(",")),
        )
        group = join_group(run, place)
    folder = RunFolder(path=Path("logs") / f"worker.{index}")
    run_id = folder.run_id() or "0123456789abcdef"
    folder.begin(run_id, fresh=False)
    context = RunContext(
        clock=time.monotonic,
        run_id=run_id,
        folder=folder,
        observer=Observers(JsonObserver(folder.metrics)),
        journal=None if place is None else folder.metric_journal(place),
    )
    training = Training(run, group, context)
    try:
        training.run(resume=resume == "resume")
    finally:
        training.close(finished=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
