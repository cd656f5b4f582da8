"""A server inside the test's own process, and a worker's client to it."""

import contextlib

import numpy as np

from fleetrec.config.job import OptimizerOptions
from fleetrec.core.place import Place
from fleetrec.embedding.sharding import TableShard
from fleetrec.embedding.table import TableConfig
from fleetrec.server.client import ClientOptions
from fleetrec.server.durable_state import DurableState
from fleetrec.server.endpoint import Endpoint, Security
from fleetrec.server.parameter_client import ParameterClient, StepUpdate
from fleetrec.server.service import Service
from fleetrec.server.service_options import ServiceOptions
from fleetrec.server.spec import ServedModel

TOKEN = "secret"
MODEL = ServedModel(
    tables=(TableConfig(name="t", dim=2), TableConfig(name="u", dim=3, num_rows=10)),
    dense_sizes=(5,),
    optimizers=(OptimizerOptions(name="sgd", lr=1.0),),
    seed=0,
    mode="async",
)


def make_service(directory, *, index=0, count=1, num_workers=1, **options):
    durable = DurableState(directory, durability="process")
    portion = TableShard(index=index, count=count)
    return Service(
        durable,
        ServiceOptions(shard=portion, num_workers=num_workers, wait_timeout_s=0.1, **options),
    ), durable


@contextlib.contextmanager
def serving(directory, *, num_servers=1, num_workers=1, token=TOKEN):
    """Serve, and yield the endpoints."""
    with contextlib.ExitStack() as stack:
        endpoints = []
        for index in range(num_servers):
            service, durable = make_service(
                directory / str(index), index=index, count=num_servers, num_workers=num_workers
            )
            stack.callback(durable.close)
            endpoint = stack.enter_context(
                Endpoint(
                    service,
                    "127.0.0.1:0",
                    security=Security(token=token),
                    num_workers=num_workers,
                )
            )
            endpoints.append(f"127.0.0.1:{endpoint.port}")
        yield endpoints


def make_place(endpoints, *, index=0, num_workers=1):
    return Place(rank=index, num_workers=num_workers, server_endpoints=tuple(endpoints))


@contextlib.contextmanager
def connected(endpoints, *, model=MODEL, token=TOKEN, index=0, num_workers=1):
    options = ClientOptions(token=token, deadline_s=30, give_up_s=60)
    place = make_place(endpoints, index=index, num_workers=num_workers)
    with contextlib.closing(ParameterClient(place, model, options)) as client:
        yield client


def make_step(tables=None, *, grads_P=None, progress=b""):
    zeros_P = np.zeros(MODEL.num_dense, np.float32)
    return StepUpdate(
        progress=progress,
        num_samples=1,
        event_time=0,
        grads_P=zeros_P if grads_P is None else grads_P,
        tables=tables or {},
    )
