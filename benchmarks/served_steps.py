"""The same requests to a server that keeps a journal and to one that does not."""

import contextlib
import itertools
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.figure import Figure, ratios
from benchmarks.job import dataset, dnn_phase
from fleetrec.config.job import OptimizerOptions
from fleetrec.data.loader import Loader
from fleetrec.embedding.remote_lookup import RemoteLookup
from fleetrec.embedding.sharding import WHOLE_TABLE
from fleetrec.models.base import Model
from fleetrec.parallel.flat import FlatParameters
from fleetrec.parallel.optimizer_plan import OptimizerPlan
from fleetrec.server.client import ClientOptions, ServerClient
from fleetrec.server.durable_state import DurableState
from fleetrec.server.endpoint import Endpoint, Security, only
from fleetrec.server.push import Push, RowPush
from fleetrec.server.service import Service
from fleetrec.server.service_options import ServiceOptions
from fleetrec.server.spec import ServedModel, build_stores
from fleetrec.server.wire import Kind, Message, json_array

TARGET = 0.8
NUM_BATCHES = 4
STEPS_PER_ROUND = 12
WARM_BYTES = 1 << 29


class Discarding(DurableState):
    """A folder that nothing is written to."""

    def append(self, record: bytes) -> None:
        """Write nothing down."""


class Asked:
    """A server in this process, and a worker's pulls and pushes through its door."""

    def __init__(self, client: ServerClient, requests: Sequence[Message]) -> None:
        self._client = client
        self._requests = requests
        self._sequence = 0

    def step(self) -> None:
        """Pull and push."""
        self._sequence += 1
        place = self._sequence % (len(self._requests) // 2)
        for request in self._requests[2 * place : 2 * place + 2]:
            self._client.call(
                Message(
                    kind=request.kind,
                    incarnation=1,
                    sequence=self._sequence,
                    arrays=request.arrays,
                )
            )


@contextlib.contextmanager
def asked(
    durable: DurableState, model: ServedModel, requests: Sequence[Message]
) -> Iterator[Asked]:
    """Serve a model, and introduce a worker to the server."""
    service = Service(durable, ServiceOptions(shard=WHOLE_TABLE, num_workers=1))
    with (
        contextlib.closing(durable),
        Endpoint(only(service), "127.0.0.1:0", security=Security(), num_workers=1) as endpoint,
        contextlib.closing(ServerClient(f"127.0.0.1:{endpoint.port}", ClientOptions())) as client,
    ):
        dense_P = np.zeros(model.num_dense, np.float32)
        client.call(Message(kind=Kind.SETUP, arrays=[json_array(model.to_plain()), dense_P]))
        client.call(Message(kind=Kind.HELLO, incarnation=1))
        yield Asked(client, requests)


def measure_journal(
    parts: Sequence[Path], *, batch_size: int, num_rounds: int, hidden: Sequence[int]
) -> list[Figure]:
    """Compare a server at level ``process`` with one that writes nothing, in turns."""
    phase = dnn_phase(parts[0].parent, batch_size=batch_size, hidden=hidden)
    model = _served(phase.model)
    requests = _requests(phase.model, model, parts[1], batch_size=batch_size)
    wall: dict[str, list[float]] = {"journal": [], "none": []}
    cpu: dict[str, list[float]] = {"journal": [], "none": []}
    with (
        tempfile.TemporaryDirectory(prefix="fleetrec-bench-") as folder,
        asked(DurableState(Path(folder) / "kept", durability="process"), model, requests) as kept,
        asked(
            Discarding(Path(folder) / "none", durability="process"), model, requests
        ) as forgotten,
    ):
        servers = {"journal": kept, "none": forgotten}
        warm_pages(Path(folder))
        for server in servers.values():
            for _ in range(NUM_BATCHES):
                server.step()
        for _ in range(num_rounds):
            for name, server in servers.items():
                wall_s, cpu_s = time.perf_counter(), time.process_time()
                for _ in range(STEPS_PER_ROUND):
                    server.step()
                num_rows = STEPS_PER_ROUND * batch_size
                wall[name].append(num_rows / (time.perf_counter() - wall_s))
                cpu[name].append(num_rows / (time.process_time() - cpu_s))
    return [
        Figure(
            name="server: journal over none",
            values=found["journal"],
            unit=unit,
            ratios=ratios(found["journal"], found["none"]),
            target=target,
        )
        for found, unit, target in ((wall, "rows/s", TARGET), (cpu, "rows/CPU s", None))
    ]


def warm_pages(folder: Path) -> None:
    """Write a file and remove it, so that journals live in pages that were given out before.

    So does that of a long run, which drops old files. On a virtual machine the first use of a page
    takes many times as long as the next.
    """
    path = folder / "pages"
    with path.open("wb") as stream:
        for _ in range(WARM_BYTES >> 20):
            stream.write(bytes(1 << 20))
    path.unlink()


def _served(model: Model) -> ServedModel:
    optimizer = OptimizerOptions(name="adam", lr=0.001)
    flat = FlatParameters(model, OptimizerPlan(model, (optimizer,)))
    return ServedModel(
        tables=tuple(model.embedding_collection().tables.values()),
        dense_sizes=flat.sizes,
        optimizers=(optimizer,),
        seed=0,
        mode="async",
    )


def _requests(model: Model, served: ServedModel, part: Path, *, batch_size: int) -> list[Message]:
    """Return a pull and a push of some batches, gradients by chance."""
    rng = np.random.default_rng(0)
    lookup = RemoteLookup(model.embedding_collection(), build_stores(served, WHOLE_TABLE))
    found: list[Message] = []
    with Loader(dataset(part, batch_size=batch_size), seed=0).epoch(0) as batches:
        for batch in itertools.islice(batches, NUM_BATCHES):
            listed = lookup.list_ids(batch)
            news = np.array([0, 1], np.uint64)
            found.append(
                Message(kind=Kind.PULL, arrays=[news, *(one.ids_N for one in listed.values())])
            )
            rows = [
                RowPush(
                    ids_N=one.ids_N,
                    shows_N=one.shows_N,
                    clicks_N=one.clicks_N,
                    grads_MD=rng.random((len(one.ids_N), table.dim), np.float32),
                )
                for one, table in zip(listed.values(), served.tables, strict=True)
            ]
            push = Push(
                progress=b"",
                num_samples=batch.num_samples,
                event_time=0,
                grads_P=rng.random(served.num_dense, np.float32),
                tables=rows,
            )
            found.append(push.to_message(worker=0, incarnation=1, sequence=0))
    return found
