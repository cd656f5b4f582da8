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
from fleetrec.core.place import Place
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
    place: Place,
    *,
    resume: bool,
    watchers: Sequence[Observer],
) -> None:
    """Do what the place says until that is done."""
    if place.role == "server":
        run_server(place, initial=None)
    else:
        _work(run, folder, place, resume=resume, watchers=watchers)


def _work(
    run: RunOptions,
    folder: RunFolder,
    place: Place,
    *,
    resume: bool,
    watchers: Sequence[Observer],
) -> None:
    run_id = folder.run_id() or secrets.token_hex(8)
    if not place.is_supervised and place.rank == 0:
        folder.begin(run_id, fresh=not resume)
    with StopRequest() as stop:
        cluster = _joined(run, place, stop)
        around = Surroundings(
            clock=time.monotonic,
            run_id=run_id,
            folder=folder,
            observer=worker_observer(folder, index=place.rank, watchers=watchers),
            should_stop=stop.is_requested,
        )
        own = with_own_results(run, index=place.rank, count=place.num_workers)
        kind = Trainer if run.kind == "train" else Evaluator
        with contextlib.closing(kind(own, around, company=cluster)) as work:
            if isinstance(work, Trainer):
                work.train(resume=resume)
            else:
                work.infer()
            if not place.is_supervised:  # else the supervisor ends the servers
                work.finish()


def _joined(run: RunOptions, place: Place, stop: StopRequest) -> Cluster:
    cluster = join_cluster(run.cluster, place, token=read_token(), authority=read_authority())
    client = dataclasses.replace(cluster.client, should_stop=stop.is_requested)
    return dataclasses.replace(cluster, client=client)
