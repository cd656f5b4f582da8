"""Servers inside the test's own process, and a worker's client of them."""

import contextlib

import numpy as np

from fleetrec.config.job import OptimizerOptions
from fleetrec.core.place import Place
from fleetrec.embedding.row_update import RowUpdate, UniqueIds
from fleetrec.embedding.sharding import TableShard
from fleetrec.embedding.table import TableConfig
from fleetrec.server.client import ClientOptions
from fleetrec.server.durable_state import DurableState
from fleetrec.server.endpoint import Endpoint, Security
from fleetrec.server.parameter_client import ParameterClient, StepUpdate
from fleetrec.server.push import Push, RowPush
from fleetrec.server.served_models import ServedModels
from fleetrec.server.service import Service
from fleetrec.server.service_options import ServiceOptions
from fleetrec.server.spec import ServedModel
from fleetrec.server.wire import Kind, Message, json_array, text_array

TOKEN = "secret"
MODEL = ServedModel(
    tables=(TableConfig(name="t", dim=2), TableConfig(name="u", dim=3, num_rows=10)),
    dense_sizes=(5,),
    optimizers=(OptimizerOptions(name="sgd", lr=1.0),),
    seed=0,
    mode="async",
)
SYNC = MODEL.model_copy(update={"mode": "sync"})


def make_service(directory, *, index=0, count=1, num_workers=1, **options):
    durable = DurableState(directory, durability="process")
    shard = TableShard(index=index, count=count)
    return Service(
        durable,
        ServiceOptions(shard=shard, num_workers=num_workers, wait_timeout_s=0.1, **options),
    ), durable


class RunningService:
    """A service with a model and registered workers, which can be restarted."""

    def __init__(self, directory, *, model=MODEL, num_workers=1, **options):
        self._make = lambda: make_service(directory, num_workers=num_workers, **options)
        self.service, self.durable = self._make()
        dense_P = np.zeros(model.num_dense, np.float32)
        self.call(Kind.SETUP, arrays=[json_array(model.to_plain()), dense_P])
        for worker in range(num_workers):
            self.call(Kind.HELLO, worker=worker, incarnation=1)

    def restart(self):
        self.durable.close()
        self.service, self.durable = self._make()

    def call(self, kind, **fields):
        return self.service.handle(Message(kind=kind, **fields))

    def push(self, sequence, *, grad=1.0, worker=0, num_samples=1):
        push = make_push(grad=grad, num_samples=num_samples, progress=b"%d" % sequence)
        return self.service.handle(push.to_message(worker=worker, incarnation=1, sequence=sequence))

    def pull(self, sequence, *, worker=0):
        arrays = [np.array([0, 1], np.uint64), np.array([7]), np.zeros(0, np.int64)]
        return self.call(Kind.PULL, worker=worker, incarnation=1, sequence=sequence, arrays=arrays)

    def gather(self, worker, content, *, name="name", number=1):
        arrays = [text_array(name), np.frombuffer(content, np.uint8)]
        return self.call(Kind.GATHER, worker=worker, sequence=number, arrays=arrays)

    def dense(self):
        return self.call(Kind.DENSE).array(1, np.float32).tolist()

    def rows(self):
        return self.call(Kind.DUMP, arrays=[text_array("t")]).arrays[1].tolist()


def make_push(*, grad=1.0, num_samples=1, progress=b""):
    """A push of one row of the first table and of all dense weights."""
    return Push(
        progress=progress,
        num_samples=num_samples,
        event_time=0,
        grads_P=np.full(MODEL.num_dense, grad, np.float32),
        tables=[make_row_push([7], [[grad, grad]]), make_row_push([], np.zeros((0, 3)))],
    )


def make_row_push(ids, grads):
    counts = np.ones(len(ids), np.uint32)
    return RowPush(
        ids_N=np.array(ids, np.int64),
        shows_N=counts,
        clicks_N=counts,
        grads_MD=np.array(grads, np.float32),
    )


@contextlib.contextmanager
def serving(directory, *, num_servers=1, num_workers=1, token=TOKEN):
    """Serve, and yield the endpoints."""
    with contextlib.ExitStack() as stack:
        endpoints = []
        for index in range(num_servers):
            options = ServiceOptions(
                shard=TableShard(index=index, count=num_servers),
                num_workers=num_workers,
                wait_timeout_s=0.1,
            )
            models = ServedModels(
                directory / str(index),
                open_state=lambda folder: DurableState(folder, durability="process"),
                open_service=lambda _, durable, options=options: Service(durable, options),
            )
            stack.callback(models.close)
            endpoint = stack.enter_context(
                Endpoint(
                    models.service,
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


def make_rows(ids, grads):
    counts = np.ones(len(ids), np.uint32)
    unique = UniqueIds(ids_N=np.array(ids, np.int64), shows_N=counts, clicks_N=counts)
    return RowUpdate(ids=unique, grads_MD=np.array(grads, np.float32))


def make_step(tables=None, *, grads_P=None, progress=b""):
    zeros_P = np.zeros(MODEL.num_dense, np.float32)
    return StepUpdate(
        progress=progress,
        num_samples=1,
        event_time=0,
        grads_P=zeros_P if grads_P is None else grads_P,
        tables=tables or {},
    )
