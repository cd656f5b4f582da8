"""One worker of a cluster: trains a job as ``fleetrec run`` does in a process of its own."""

import logging
import os
import sys
import time
from pathlib import Path

from fleetrec.cli.job import load_job
from fleetrec.core.place import Place
from fleetrec.parallel.join import join_group
from fleetrec.train.context import RunContext
from fleetrec.train.events import Observers
from fleetrec.train.observers import JsonObserver
from fleetrec.train.run import Training
from fleetrec.train.run_folder import RunFolder


def main(job, mode, index, num_workers, endpoints, resume=""):
    logging.basicConfig(level=logging.INFO)
    path = Path(job).resolve()
    os.chdir(path.parent)
    loaded = load_job(str(path), overrides=())
    run = loaded.runs[0]
    cluster = run.cluster.model_copy(update={"strategy": mode})
    run = run.model_copy(update={"cluster": cluster})
    place = Place(
        rank=int(index),
        num_workers=int(num_workers),
        server_endpoints=tuple(endpoints.split(",")),
    )
    name = f"{loaded.workspace.name}.{run.name}" if index == "0" else f"worker.{index}"
    folder = RunFolder(path=Path("logs") / name)
    run_id = folder.run_id() or "one"
    folder.begin(run_id, fresh=False)
    context = RunContext(
        clock=time.monotonic,
        run_id=run_id,
        folder=folder,
        observer=Observers(JsonObserver(folder.metrics)),
        journal=folder.metric_journal(place),
    )
    training = Training(run, join_group(run, place), context)
    try:
        training.run(resume=bool(resume))
    finally:
        training.close(finished=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
