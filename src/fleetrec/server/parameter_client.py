"""Worker-side client of all parameter servers of a run."""

# Shape suffixes: N ids, D width of a row, P dense weights.

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from fleetrec.core.fault_points import fault_point
from fleetrec.core.place import Place
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.remote_lookup import Rows, RowUpdate
from fleetrec.embedding.sharding import WHOLE_TABLE, TableShard, route
from fleetrec.server.admin_client import AdminClient
from fleetrec.server.client import ClientOptions, ServerGroup
from fleetrec.server.evict_request import EvictionRequest
from fleetrec.server.push import Push, RowPush
from fleetrec.server.routing import empty_push, split_update
from fleetrec.server.service_options import FINISHED
from fleetrec.server.spec import ServedModel, build_stores
from fleetrec.server.wire import Array, Kind, Message, json_array, text_array


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WorkerProgress:
    """What the servers know of a worker that is registered again.

    ``progress`` is stored with its last push, number ``sequence``. ``initial_progress`` is what it
    contributed to the gather before the first step.
    """

    sequence: int
    progress: bytes
    initial_progress: bytes
    num_passes: int = 0  # that all workers have ended


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StepUpdate:
    """Gradients and counts of one step of a worker."""

    progress: bytes
    num_samples: int
    event_time: int
    grads_P: Array
    tables: Mapping[str, RowUpdate]


class ParameterClient:
    """Splits requests by server and joins the answers."""

    def __init__(self, place: Place, model: ServedModel, options: ClientOptions) -> None:
        self._index = place.rank
        self._incarnation = 0
        self.last_known_sequence = 0  # last push of earlier processes that any server has
        self._servers = ServerGroup(place.server_endpoints, options)
        self.num_steps = 0  # made by the servers, as of the last pull
        self.model = model
        self._dense_P: Array | None = None
        self._versions = [0] * place.num_servers  # of the dense weights in _dense_P
        self.stores: Mapping[str, NativeStore] = build_stores(model, WHOLE_TABLE)
        # Saving takes long. With its own threads and channels it does not delay steps.
        self.admin = AdminClient(
            ServerGroup(place.server_endpoints, options), model, self.stores, self._message
        )

    @property
    def worker(self) -> int:
        """Return the rank of this worker."""
        return self._index

    def set_up(self, dense_P: Array) -> None:
        """Send the model and the initial dense weights to all servers; called by worker 0."""
        model = json_array(self.model.to_plain())
        messages = [
            Message(kind=Kind.SETUP, arrays=[model, dense_P[first:last]])
            for first, last in self._dense_ranges()
        ]
        self._servers.call_each(messages)

    def register(self) -> WorkerProgress:
        """Register this process as the worker; requests of older processes are refused."""
        known = self._servers.call_all(Message(kind=Kind.HELLO, worker=self._index))
        self._incarnation = max(answer.incarnation for answer in known) + 1
        answers = self._servers.call_all(self._message(Kind.HELLO))
        least = min(answers, key=lambda answer: answer.sequence)
        self.last_known_sequence = max(answer.sequence for answer in answers)
        return WorkerProgress(
            sequence=least.sequence,
            progress=least.array(0, np.uint8).tobytes(),
            initial_progress=answers[0].array(2, np.uint8).tobytes(),  # server 0 keeps gathers
            num_passes=min(answer.json(1)["num_passes"] for answer in answers),
        )

    def pull(
        self, ids: Mapping[str, Array], *, sequence: int, wants_dense: bool = True
    ) -> tuple[dict[str, Rows], Array]:
        """Return rows by table and the dense weights, which may be older without ``wants_dense``.

        ``sequence`` is the step that the rows are for; 0 looks them up without a step.
        """
        count = len(self._servers)
        wants_dense = wants_dense or self._dense_P is None
        nothing = np.zeros(0, np.int64)
        routes = {
            name: route(store.table, ids.get(name, nothing), num_shards=count)
            for name, store in self.stores.items()
        }
        parts = {name: split.split(ids.get(name, nothing)) for name, split in routes.items()}
        messages = [
            self._message(
                Kind.PULL,
                sequence=sequence,
                arrays=[
                    np.array([self._versions[server], wants_dense], np.uint64),
                    *(parts[name][server] for name in self.stores),
                ],
            )
            for server in range(count)
        ]
        fault_point("pull")
        answers = self._servers.call_each(messages)
        self._update_dense(answers)
        self.num_steps = max(answer.incarnation for answer in answers)
        rows = {
            name: Rows(
                rows_ND=split.join([answer.arrays[1 + 2 * index] for answer in answers]),
                is_there_N=split.join([answer.arrays[2 + 2 * index] for answer in answers]),
            )
            for index, (name, split) in enumerate(routes.items())
        }
        assert self._dense_P is not None
        return rows, self._dense_P

    def push(self, step: StepUpdate, *, sequence: int) -> None:
        """Push a step; returns when all servers have made it durable."""
        count = len(self._servers)
        by_table: list[list[RowPush]] = [
            split_update(store, step.tables[name], num_servers=count)
            if name in step.tables
            else [empty_push(store)] * count
            for name, store in self.stores.items()
        ]
        messages = [
            Push(
                progress=step.progress,
                num_samples=step.num_samples,
                event_time=step.event_time,
                grads_P=step.grads_P[first:last],
                tables=[pushes[server] for pushes in by_table],
            ).to_message(worker=self._index, incarnation=self._incarnation, sequence=sequence)
            for server, (first, last) in enumerate(self._dense_ranges())
        ]
        fault_point("push")
        self._servers.call_each(messages)
        fault_point("push_done")

    def end_pass(self, number: int) -> None:
        """End a pass; a barrier: returns when all workers have ended it."""
        fault_point("leave")
        self._servers.call_all(self._message(Kind.END_PASS, sequence=number))
        fault_point("leave_done")

    def evict(self, number: int, eviction: EvictionRequest) -> None:
        """Evict rows after pass ``number``."""
        arrays = [eviction.to_array()]
        self._servers.call_all(self._message(Kind.EVICT, sequence=number, arrays=arrays))

    def all_gather(self, content: bytes, *, key: str, number: int) -> list[bytes]:
        """All-gather ``content`` over the workers, in rank order.

        ``number`` is 1 + the index of the pass, or 0 outside of passes.
        """
        arrays = [text_array(key), np.frombuffer(content, np.uint8)]
        request = self._message(Kind.GATHER, sequence=number, arrays=arrays)
        answer = self._servers.call_first(request)
        return [answer.array(index, np.uint8).tobytes() for index in range(len(answer.arrays))]

    def wait_for_step(self, sequence: int) -> None:
        """Wait until the steps before ``sequence`` have been applied."""
        self.pull({}, sequence=sequence, wants_dense=False)

    def finish(self) -> None:
        """Report that this worker has finished; servers stop after the last worker."""
        arrays = [text_array(FINISHED), np.zeros(0, np.uint8)]
        self._servers.call_all(self._message(Kind.GATHER, arrays=arrays))

    def close(self) -> None:
        """Hang up."""
        self._servers.close()
        self.admin.close()

    def _message(self, kind: Kind, *, sequence: int = 0, arrays: Sequence[Array] = ()) -> Message:
        return Message(
            kind=kind,
            worker=self._index,
            incarnation=self._incarnation,
            sequence=sequence,
            arrays=arrays,
        )

    def _shards(self) -> list[TableShard]:
        count = len(self._servers)
        return [TableShard(index=index, count=count) for index in range(count)]

    def _dense_ranges(self) -> list[tuple[int, int]]:
        return [shard.part_of(self.model.num_dense) for shard in self._shards()]

    def _update_dense(self, answers: Sequence[Message]) -> None:
        """Copy the dense weights of the servers where they have changed."""
        if self._dense_P is None:
            self._dense_P = np.zeros(self.model.num_dense, np.float32)
        for server, (answer, (first, last)) in enumerate(
            zip(answers, self._dense_ranges(), strict=True)
        ):
            if answer.sequence != self._versions[server]:
                self._dense_P[first:last] = answer.array(0, np.float32)
                self._versions[server] = answer.sequence
