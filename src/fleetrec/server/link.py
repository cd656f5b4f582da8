"""A worker's side of the wire: what it pulls, pushes and agrees upon, with all servers at once."""

# Shape suffixes: N ids, D width of a row, P numbers of the dense network.

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fleetrec.checkpoint.staging import Staging
from fleetrec.core.faults import reach
from fleetrec.core.topology import Topology
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.record import StoredTable
from fleetrec.embedding.remote_lookup import Rows, RowUpdate
from fleetrec.server.client import ClientOptions, ServerGroup
from fleetrec.server.push import Push, RowPush
from fleetrec.server.routing import empty_push, route, split_step
from fleetrec.server.service_options import FINISHED
from fleetrec.server.spec import Portion, ServedModel, build_stores
from fleetrec.server.wire import Array, Kind, Message, as_bytes, text_array

WHOLE = Portion(index=0, count=1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a worker stands that was there before: its last push, and its data behind it.

    ``begun`` is what it brought to the meeting before the first step.
    """

    sequence: int
    progress: bytes
    begun: bytes
    num_passes: int = 0  # that all workers have left


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a worker has to say after a batch."""

    progress: bytes
    num_samples: int
    event_time: int
    grads_P: Array
    tables: Mapping[str, RowUpdate]


class Link:
    """Splits what is asked by server, and puts the answers together."""

    def __init__(self, topology: Topology, model: ServedModel, options: ClientOptions) -> None:
        self._index = topology.index
        self._incarnation = 0
        self.last_known = 0  # the last push of an earlier process that any server has
        self._servers = ServerGroup(topology.server_endpoints, options)
        self._model = model
        self._dense_P: Array | None = None
        self._versions = [0] * topology.num_servers  # of the dense part, as known here
        self.stores: Mapping[str, NativeStore] = build_stores(model, WHOLE)

    @property
    def worker(self) -> int:
        """Return the number of this worker."""
        return self._index

    def set_up(self, dense_P: Array) -> None:
        """Tell the servers what they serve, and the first numbers; once, by worker 0."""
        described = as_bytes(self._model.to_plain())
        messages = [
            Message(kind=Kind.SETUP, arrays=[described, dense_P[first:last]])
            for first, last in self._portions()
        ]
        self._servers.ask_each(messages)

    def enter(self) -> Standing:
        """Take the place of this worker; an older process of its number is out from here on."""
        seen = self._servers.ask_all(Message(kind=Kind.HELLO, worker=self._index))
        self._incarnation = max(answer.incarnation for answer in seen) + 1
        answers = self._servers.ask_all(self._message(Kind.HELLO))
        least = min(answers, key=lambda answer: answer.sequence)
        self.last_known = max(answer.sequence for answer in answers)
        return Standing(
            sequence=least.sequence,
            progress=least.array(0, np.uint8).tobytes(),
            begun=answers[0].array(2, np.uint8).tobytes(),  # where workers meet
            num_passes=min(answer.plain(1)["num_passes"] for answer in answers),
        )

    def pull(
        self, ids: Mapping[str, Array], *, sequence: int, wants_dense: bool = True
    ) -> tuple[dict[str, Rows], Array]:
        """Return rows by table, and the dense numbers: those of now, or as they were pulled last.

        ``sequence`` is that of the step which the rows are for; 0 only reads.
        """
        count = len(self._servers)
        wants_dense = wants_dense or self._dense_P is None
        nothing = np.zeros(0, np.int64)
        ways = {
            name: route(store, ids.get(name, nothing), num_servers=count)
            for name, store in self.stores.items()
        }
        parts = {name: way.split(ids.get(name, nothing)) for name, way in ways.items()}
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
        reach("pull")
        answers = self._servers.ask_each(messages)
        self._take_dense(answers)
        rows = {
            name: way.join([_rows_of(answer, place) for answer in answers])
            for place, (name, way) in enumerate(ways.items())
        }
        assert self._dense_P is not None
        return rows, self._dense_P

    def push(self, step: Step, *, sequence: int) -> None:
        """Tell the servers what a batch did; returns when all of them have written it down."""
        count = len(self._servers)
        by_table: list[list[RowPush]] = [
            split_step(store, step.tables[name], num_servers=count)
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
            for server, (first, last) in enumerate(self._portions())
        ]
        reach("push")
        self._servers.ask_each(messages)
        reach("push_done")

    def leave(self, number: int) -> None:
        """Say that there is no more data in a pass; returns when no worker has any."""
        reach("leave")
        self._servers.ask_all(self._message(Kind.LEAVE, sequence=number))
        reach("leave_done")

    def evict(self, number: int) -> None:
        """Let rows go that are not wanted any more after a pass."""
        self._servers.ask_all(self._message(Kind.EVICT, sequence=number))

    def gather(self, name: str, content: bytes, *, number: int) -> list[bytes]:
        """Bring some bytes, and get those of all workers, in their order.

        ``number`` is that of the pass; together with ``name`` it says which meeting this is.
        """
        parts = [text_array(name), np.frombuffer(content, np.uint8)]
        answer = self._servers.ask_first(self._message(Kind.GATHER, sequence=number, arrays=parts))
        return [answer.array(place, np.uint8).tobytes() for place in range(len(answer.arrays))]

    def standings(self) -> list[bytes]:
        """Return how far the data of every worker is in what the servers hold.

        The first of them is asked; in ``sync`` they are all at one step.
        """
        answer = self._servers.ask_first(self._message(Kind.STANDINGS))
        return [answer.array(place, np.uint8).tobytes() for place in range(len(answer.arrays))]

    def wait_for_step(self, sequence: int) -> None:
        """Wait, as a pull does, until a step can begin: those before it have been applied."""
        self.pull({}, sequence=sequence, wants_dense=False)

    def finish(self) -> None:
        """Tell all servers that this worker needs them no more; without a worker they end."""
        parts = [text_array(FINISHED), np.zeros(0, np.uint8)]
        self._servers.ask_all(self._message(Kind.GATHER, arrays=parts))

    def save(
        self, staging: Staging, folder: str, shards_each: Mapping[str, int]
    ) -> list[dict[str, Any]]:
        """Let every server write its files of tables; returns what each says about them.

        All files of a table must be of one version. A server that died in between, or was asked
        twice, has another: then all write again.
        """
        while True:
            answers = self._servers.ask_all(self._message(Kind.STATS))
            versions = [answer.plain()["versions"] for answer in answers]
            tables = {
                name: (count, max(its[name] for its in versions))
                for name, count in shards_each.items()
            }
            wanted = {"staging": staging.url, "folder": folder, "tables": tables}
            answers = self._servers.ask_all(self._message(Kind.SAVE, arrays=[as_bytes(wanted)]))
            written: list[dict[str, Any]] = [answer.plain() for answer in answers]
            if all(
                len({one["tables"][name]["version"] for one in written}) == 1 for name in tables
            ):
                return written

    def load(self, tables: Sequence[StoredTable], *, exactly: bool) -> None:
        """Let every server take up its portion of tables: all, or only the weights of rows."""
        wanted = {"exactly": exactly, "tables": [stored.to_plain() for stored in tables]}
        self._servers.ask_all(self._message(Kind.LOAD, arrays=[as_bytes(wanted)]))

    def clear(self) -> None:
        """Forget all rows."""
        self._servers.ask_all(self._message(Kind.CLEAR))

    def dense_state(self) -> dict[str, Array]:
        """Return weights and optimizer state of the whole dense network, by key."""
        answers = self._servers.ask_all(self._message(Kind.DENSE))
        states = [_by_key(answer) for answer in answers]
        parts = {key: [state[key] for state in states] for key in states[0]}
        sizes = [last - first for first, last in self._portions()]
        return {
            key: np.concatenate(found) if [*map(len, found)] == sizes else found[0]
            for key, found in parts.items()
        }

    def set_dense(self, state: Mapping[str, Array]) -> None:
        """Replace weights and optimizer state of the dense network."""
        messages = [
            self._message(
                Kind.SET_DENSE,
                arrays=[
                    as_bytes([*state]),
                    *(
                        value[first:last] if len(value) == self._model.num_dense else value
                        for value in state.values()
                    ),
                ],
            )
            for first, last in self._portions()
        ]
        self._servers.ask_each(messages)

    def dump(self, table: str) -> tuple[Array, Array]:
        """Return ids and rows of a whole table, in the order of unsigned ids."""
        answers = self._servers.ask_all(self._message(Kind.DUMP, arrays=[text_array(table)]))
        ids_N = np.concatenate([answer.array(0, np.int64) for answer in answers])
        dim = self.stores[table].dim
        rows_ND = np.concatenate([answer.array(1, np.float32, columns=dim) for answer in answers])
        order_N = np.argsort(ids_N.view(np.uint64), kind="stable")
        return ids_N[order_N], rows_ND[order_N]

    def stats(self) -> list[dict[str, Any]]:
        """Return what every server says about its tables."""
        answers = self._servers.ask_all(self._message(Kind.STATS))
        return [answer.plain()["tables"] for answer in answers]

    def close(self) -> None:
        """Hang up."""
        self._servers.close()

    def _message(self, kind: Kind, *, sequence: int = 0, arrays: Sequence[Array] = ()) -> Message:
        return Message(
            kind=kind,
            worker=self._index,
            incarnation=self._incarnation,
            sequence=sequence,
            arrays=arrays,
        )

    def _portions(self) -> list[tuple[int, int]]:
        count = len(self._servers)
        return [Portion(index=i, count=count).dense(self._model.num_dense) for i in range(count)]

    def _take_dense(self, answers: Sequence[Message]) -> None:
        """Take up the dense numbers of servers where they have changed."""
        if self._dense_P is None:
            self._dense_P = np.zeros(self._model.num_dense, np.float32)
        for server, (answer, (first, last)) in enumerate(
            zip(answers, self._portions(), strict=True)
        ):
            if answer.sequence != self._versions[server]:
                self._dense_P[first:last] = answer.array(0, np.float32)
                self._versions[server] = answer.sequence


def _rows_of(answer: Message, place: int) -> Rows:
    rows_ND, is_there_N = answer.arrays[1 + 2 * place], answer.arrays[2 + 2 * place]
    return Rows(rows_ND=rows_ND, is_there_N=is_there_N)


def _by_key(answer: Message) -> dict[str, Array]:
    keys: list[str] = answer.plain()
    return {key: answer.array(place + 1, np.float32) for place, key in enumerate(keys)}
