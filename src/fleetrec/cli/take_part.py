"""``fleetrec run`` as one process of several: a server or a worker."""

import contextlib
import dataclasses
import secrets
import time
from collections.abc import Sequence

from fleetrec.cli.one_of_several import with_own_results, worker_observer
from fleetrec.cli.signals import StopRequest
from fleetrec.config.job import RunOptions
from fleetrec.core.env import read_authority, read_token
from fleetrec.core.topology import Topology
from fleetrec.parallel.cluster import Cluster, join_cluster
from fleetrec.server.process import run_server
from fleetrec.train.evaluator import Evaluator
from fleetrec.train.events import Observer
from fleetrec.train.passes import Surroundings
from fleetrec.train.run_folder import RunFolder
from fleetrec.train.trainer import Trainer


def take_part(
    run: RunOptions,
    folder: RunFolder,
    topology: Topology,
    *,
    resume: bool,
    watchers: Sequence[Observer],
) -> None:
    """Do what the topology says until that is done."""
    if topology.role == "server":
        run_server(topology, initial=None)
    else:
        _work(run, folder, topology, resume=resume, watchers=watchers)


def _work(
    run: RunOptions,
    folder: RunFolder,
    topology: Topology,
    *,
    resume: bool,
    watchers: Sequence[Observer],
) -> None:
    run_id = folder.run_id() or secrets.token_hex(8)
    if run.engine == "cluster" and topology.index == 0:  # else the supervisor has done it
        folder.begin(run_id, fresh=not resume)
    with StopRequest() as stop:
        cluster = _joined(run, topology, stop)
        around = Surroundings(
            clock=time.monotonic,
            run_id=run_id,
            folder=folder,
            observer=worker_observer(folder, index=topology.index, watchers=watchers),
            should_stop=stop.is_requested,
        )
        own = with_own_results(run, index=topology.index, count=topology.num_workers)
        kind = Trainer if run.kind == "train" else Evaluator
        with contextlib.closing(kind(own, around, company=cluster)) as work:
            if isinstance(work, Trainer):
                work.train(resume=resume)
            else:
                work.infer()
            if run.engine == "cluster":  # else the supervisor ends the servers
                work.finish()


def _joined(run: RunOptions, topology: Topology, stop: StopRequest) -> Cluster:
    cluster = join_cluster(run.cluster, topology, token=read_token(), authority=read_authority())
    client = dataclasses.replace(cluster.client, should_stop=stop.is_requested)
    return dataclasses.replace(cluster, client=client)
