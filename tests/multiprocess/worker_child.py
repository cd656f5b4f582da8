"""One worker of a cluster: trains a job as ``fleetrec run`` does in a process of its own."""

import contextlib
import logging
import os
import sys
import time
from pathlib import Path

from fleetrec.parallel.cluster import join_cluster
from fleetrec.train.passes import Surroundings
from fleetrec.train.trainer import Trainer

from fleetrec.cli.job import load_job
from fleetrec.core.env import read_authority, read_token
from fleetrec.core.topology import Topology
from fleetrec.train.events import Observers
from fleetrec.train.observers import JsonObserver
from fleetrec.train.run_folder import RunFolder


def main(job, mode, index, num_workers, endpoints, resume=""):
    logging.basicConfig(level=logging.INFO)
    path = Path(job).resolve()
    os.chdir(path.parent)
    loaded = load_job(str(path), overrides=())
    run = loaded.runs[0]
    servers = tuple(endpoints.split(","))
    topology = Topology(
        role="worker",
        index=int(index),
        num_workers=int(num_workers),
        num_servers=len(servers),
        server_endpoints=servers,
    )
    name = f"{loaded.workspace.name}.{run.name}" if index == "0" else f"worker.{index}"
    folder = RunFolder(path=Path("logs") / name)
    run_id = folder.run_id() or "one"
    folder.begin(run_id, fresh=False)
    around = Surroundings(
        clock=time.monotonic,
        run_id=run_id,
        folder=folder,
        observer=Observers(JsonObserver(folder.metrics)),
    )
    cluster = join_cluster(
        run.cluster.model_copy(update={"strategy": mode}),
        topology,
        token=read_token(),
        authority=read_authority(),
    )
    trainer = Trainer(run, around, company=cluster)
    with contextlib.closing(trainer):
        trainer.train(resume=bool(resume))


if __name__ == "__main__":
    main(*sys.argv[1:])
