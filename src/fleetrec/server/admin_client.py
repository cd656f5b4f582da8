"""A worker's requests about all that servers hold: save, load, dump, statistics."""

# Shape suffixes: N ids, D width of a row, P numbers of the dense network.

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.record import StoredTable
from fleetrec.embedding.sharding import TableShard
from fleetrec.server.client import ServerGroup
from fleetrec.server.dense import NUM_STEPS, WEIGHTS
from fleetrec.server.spec import ServedModel
from fleetrec.server.wire import Array, Kind, Message, json_array, text_array


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServersCut:
    """The state of all servers at one moment; ``tables`` has one description per server."""

    worker_progress: list[bytes]
    dense: Mapping[str, Array]
    tables: Mapping[str, Sequence[Mapping[str, Any]]]


class MakeMessage(Protocol):
    """Makes the messages of a registered worker."""

    def __call__(self, kind: Kind, *, arrays: Sequence[Array] = ()) -> Message:
        """Return a message of this kind."""
        ...


class AdminClient:
    """Splits requests by server and joins the answers; may be used by a thread of its own."""

    def __init__(
        self,
        servers: ServerGroup,
        model: ServedModel,
        stores: Mapping[str, NativeStore],
        make_message: MakeMessage,
    ) -> None:
        self._servers = servers
        self._model = model
        self._stores = stores
        self._message = make_message

    def cut(self, token: str) -> "ServersCut":
        """Cut the state of all servers; retries until a table has one version on all of them."""
        least: dict[str, int] = {}
        while True:
            body = json_array({"token": token, "least": least})
            answers = self._servers.call_all(self._message(Kind.CUT, arrays=[body]))
            cuts = [_read_cut(answer) for answer in answers]
            versions = {n: [one.tables[n]["version"] for one in cuts] for n in self._stores}
            if all(len(set(found)) == 1 for found in versions.values()):
                return ServersCut(
                    worker_progress=cuts[0].worker_progress,
                    dense=self._join_dense([one.dense for one in cuts]),
                    tables={name: [one.tables[name] for one in cuts] for name in self._stores},
                )
            least = {name: max(found) for name, found in versions.items()}

    def save(self, token: str, target: str, tables: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Let every server write its files of a cut; returns their records by server.

        May run in another thread while steps continue.
        """
        body = json_array({"token": token, "target": target, "tables": tables})
        answers = self._servers.call_all(self._message(Kind.SAVE, arrays=[body]))
        return [answer.json()["tables"] for answer in answers]

    def commit(self, token: str, *, published: bool, fingerprints: Mapping[str, str]) -> None:
        """Commit a cut on every server, or drop it; may run in another thread, as ``save``."""
        body = {"token": token, "published": published, "fingerprints": dict(fingerprints)}
        self._servers.call_all(self._message(Kind.COMMIT, arrays=[json_array(body)]))

    def load(self, tables: Sequence[StoredTable], *, exactly: bool) -> None:
        """Let every server load its shard of tables: all of it, or only the weights."""
        body = {"exactly": exactly, "tables": [stored.to_plain() for stored in tables]}
        self._servers.call_all(self._message(Kind.LOAD, arrays=[json_array(body)]))

    def clear(self) -> None:
        """Delete all rows."""
        self._servers.call_all(self._message(Kind.CLEAR))

    def dense_state(self) -> dict[str, Array]:
        """Return the dense weights and optimizer slots of all servers; see ``DensePart``."""
        answers = self._servers.call_all(self._message(Kind.DENSE))
        return self._join_dense([_dense_by_key(answer, 0) for answer in answers])

    def set_dense(self, state: Mapping[str, Array]) -> None:
        """Replace the dense weights and optimizer slots."""
        messages = []
        for shard in self._shards():
            parts = self._split_dense(state, shard)
            arrays = [json_array([*parts]), *parts.values()]
            messages.append(self._message(Kind.SET_DENSE, arrays=arrays))
        self._servers.call_each(messages)

    def dump(self, table: str) -> tuple[Array, Array]:
        """Return the ids and rows of a whole table, sorted by unsigned id."""
        answers = self._servers.call_all(self._message(Kind.DUMP, arrays=[text_array(table)]))
        ids_N = np.concatenate([answer.array(0, np.int64) for answer in answers])
        dim = self._stores[table].dim
        rows_ND = np.concatenate([answer.array(1, np.float32, columns=dim) for answer in answers])
        order_N = np.argsort(ids_N.view(np.uint64), kind="stable")
        return ids_N[order_N], rows_ND[order_N]

    def stats(self) -> list[dict[str, Any]]:
        """Return the table statistics of every server."""
        answers = self._servers.call_all(self._message(Kind.STATS))
        return [answer.json()["tables"] for answer in answers]

    def close(self) -> None:
        """Hang up."""
        self._servers.close()

    def _shards(self) -> list[TableShard]:
        count = len(self._servers)
        return [TableShard(index=index, count=count) for index in range(count)]

    def _join_dense(self, states: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
        """Concatenate the dense states of all servers."""
        keys = dict.fromkeys(key for state in states for key in state)
        found = {key: [state[key] for state in states if key in state] for key in keys}
        return {k: v[0] if is_scalar_slot(k) else np.concatenate(v) for k, v in found.items()}

    def _split_dense(self, state: Mapping[str, Array], shard: TableShard) -> dict[str, Array]:
        """Return the part of a dense state that belongs to one server."""
        first, last = shard.part_of(self._model.num_dense)
        parts = {WEIGHTS: state[WEIGHTS][first:last]}
        if NUM_STEPS in state:
            parts[NUM_STEPS] = state[NUM_STEPS]
        segments = {str(index): (a, b) for index, a, b in self._model.dense_segments(shard)}
        for key in state.keys() - parts.keys():
            index = key.partition("/")[0]
            if index in segments:
                begin, end = segments[index]
                parts[key] = state[key] if is_scalar_slot(key) else state[key][begin:end]
        return parts


def is_scalar_slot(key: str) -> bool:
    """Return whether a key of a dense state holds one value for all weights."""
    return key == NUM_STEPS or key.endswith("/step")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ServerCut:
    worker_progress: list[bytes]
    dense: Mapping[str, Array]
    tables: Mapping[str, Mapping[str, Any]]


def _read_cut(answer: Message) -> _ServerCut:
    content = answer.json()
    dense_index = 1 + int(content["num_workers"])
    return _ServerCut(
        worker_progress=[answer.array(i, np.uint8).tobytes() for i in range(1, dense_index)],
        dense=_dense_by_key(answer, dense_index),
        tables=content["tables"],
    )


def _dense_by_key(answer: Message, first: int) -> dict[str, Array]:
    keys: list[str] = answer.json(first)
    return {key: answer.array(index, np.float32) for index, key in enumerate(keys, start=first + 1)}
