"""All-to-all exchange of ids, rows and gradients between ranks.

A table is sharded over the ranks by its buckets, or replicated on every rank. In a step every rank
lists the unique ids of its batch. Those of a sharded table are sent to the ranks that hold them,
those of a replicated one to all, each with its number of impressions. Rows come back, and later
gradients follow the route of the ids: the holder of a row sums what all ranks send, in rank order,
so replicas stay equal. Every exchange carries all tables.
"""

# Shape suffixes: N ids of one table, M of them with a gradient, D width of a row.

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.remote_lookup import Rows, RowUpdate, UniqueIds
from fleetrec.embedding.sharding import Route, route
from fleetrec.parallel.rank_comm import Channel, RankComm

Array = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The ids of one table that this rank has sent, and those that came to it, by rank."""

    listed: UniqueIds
    route: Route | None  # None: the table is replicated, so all ids go to every rank
    positions: Sequence[Array]  # of the ids that went to each rank
    received: Sequence[UniqueIds]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RowGradients:
    """Gradients of rows of one table; those of one id add up."""

    ids_N: Array
    grads_ND: Array

    def square_sum(self) -> float:
        """Return the sum of squares over the rows."""
        unique_M, index_N = np.unique(self.ids_N, return_inverse=True)
        sums_MD = np.zeros((len(unique_M), self.grads_ND.shape[1]), np.float64)
        np.add.at(sums_MD, index_N, self.grads_ND)
        return float(np.square(sums_MD).sum())


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """What one exchange says about one table: a part for each rank, and how much comes back."""

    parts: Sequence[Array]
    counts: Sequence[int]

    @property
    def size_of_one(self) -> int:
        one = self.parts[0]
        return one.itemsize * int(np.prod(one.shape[1:], dtype=np.int64))


class RowExchange:
    """Carries the ids, rows and gradients of all tables of a model."""

    def __init__(
        self,
        comm: RankComm,
        stores: Mapping[str, NativeStore],
        *,
        sharded: Collection[str],
        channel: Channel = "steps",
    ) -> None:
        self._comm = comm
        self._channel = channel
        self._stores = stores
        self._sharded = frozenset(sharded)

    def on_prefetch_channel(self) -> "RowExchange":
        """Return the same exchange on the channel of the prefetching thread."""
        return RowExchange(self._comm, self._stores, sharded=self._sharded, channel="prefetch")

    def send_ids(self, listed: Mapping[str, UniqueIds]) -> dict[str, Sent]:
        """Send the ids of a batch, and how often each occurs, to the ranks that hold their rows."""
        if not listed:
            return {}
        routes = {name: self._route(name, its) for name, its in listed.items()}
        positions = {
            name: self._positions(routes[name], len(its.ids_N)) for name, its in listed.items()
        }
        outgoing = np.array([[len(part) for part in its] for its in positions.values()], np.int64)
        incoming = self._comm.exchange_counts(
            outgoing.reshape(len(listed), -1).T, channel=self._channel
        ).T
        counts = dict(zip(listed, incoming.tolist(), strict=True))
        columns = [
            _Column(parts=[column[part] for part in positions[name]], counts=counts[name])
            for name, column in (
                *((name, its.ids_N) for name, its in listed.items()),
                *((name, its.shows_N) for name, its in listed.items()),
                *((name, its.clicks_N) for name, its in listed.items()),
            )
        ]
        swapped = self._all_to_all(columns)
        size = len(listed)
        sent = {}
        for place, (name, its) in enumerate(listed.items()):
            found = zip(*(swapped[place + size * column] for column in range(3)), strict=True)
            received = [UniqueIds(ids_N=i, shows_N=s, clicks_N=c) for i, s, c in found]
            sent[name] = Sent(
                listed=its, route=routes[name], positions=positions[name], received=received
            )
        return sent

    def count_impressions(self, sent: Mapping[str, Sent], *, now: int) -> None:
        """Count the impressions of all ranks on the rows held here; ids may be admitted."""
        for name, its in sent.items():
            for one in its.received:
                if len(one.ids_N):
                    self._stores[name].table.count_impressions(
                        one.ids_N, one.shows_N, one.clicks_N, now=now
                    )

    def rows(self, sent: Mapping[str, Sent]) -> dict[str, Rows]:
        """Return the rows of the ids that this rank has sent, in the order of its lists."""
        sharded = {name: its for name, its in sent.items() if its.route is not None}
        found = {name: self._read_received(name, its) for name, its in sharded.items()}
        counts = {name: [len(part) for part in its.positions] for name, its in sharded.items()}
        swapped = self._all_to_all(
            [
                *(_Column(parts=found[n][0], counts=counts[n]) for n in sharded),
                *(_Column(parts=found[n][1], counts=counts[n]) for n in sharded),
            ]
        )
        replicated = {name: its.listed.ids_N for name, its in sent.items() if its.route is None}
        rows = {name: self._read(name, ids_N) for name, ids_N in replicated.items()}
        for place, (name, its) in enumerate(sharded.items()):
            assert its.route is not None
            parts = zip(swapped[place], swapped[place + len(sharded)], strict=True)
            rows_ND, is_there_N = (its.route.join(part) for part in zip(*parts, strict=True))
            rows[name] = Rows(rows_ND=rows_ND, is_there_N=is_there_N)
        return rows

    def exchange_gradients(
        self, sent: Mapping[str, Sent], updates: Mapping[str, RowUpdate], *, scale: float
    ) -> dict[str, RowGradients]:
        """Send gradients to the holders of rows; returns what all ranks sent for rows held here.

        An id occurs once for every rank that has a gradient for it. Gradients are multiplied by
        ``scale``.
        """
        grads = {name: _all_grads(its.listed, updates[name]) for name, its in sent.items()}
        counts = {name: [len(one.ids_N) for one in its.received] for name, its in sent.items()}
        swapped = self._all_to_all(
            [
                _Column(parts=[grads[n][column][p] for p in its.positions], counts=counts[n])
                for column in range(2)
                for n, its in sent.items()
            ]
        )
        received = {}
        for place, (name, its) in enumerate(sent.items()):
            ids_N = np.concatenate([one.ids_N for one in its.received])
            grads_ND = np.concatenate(swapped[place])
            is_real_N = np.concatenate(swapped[place + len(sent)]).astype(np.bool_)
            if not is_real_N.all():
                ids_N, grads_ND = ids_N[is_real_N], grads_ND[is_real_N]
            grads_ND *= np.float32(scale)
            received[name] = RowGradients(ids_N=ids_N, grads_ND=grads_ND)
        return received

    def square_sum(self, gradients: Mapping[str, RowGradients]) -> float:
        """Return the sum of squares over the gradients of all rows, each summed over the ranks."""
        squares = {name: its.square_sum() for name, its in gradients.items()}
        own = sum(value for name, value in squares.items() if name in self._sharded)
        (total,) = self._comm.all_reduce_sum([own], dtype=torch.float64)
        return total + sum(value for name, value in squares.items() if name not in self._sharded)

    def _all_to_all(self, columns: Sequence[_Column]) -> list[list[Array]]:
        """Send every rank its part of all columns; returns by column what came, by rank."""
        count = self._comm.size
        if not columns:
            return []
        if count == 1:
            return [list(column.parts) for column in columns]
        outgoing = [
            np.concatenate(
                [np.ascontiguousarray(c.parts[rank]).reshape(-1).view(np.uint8) for c in columns]
            )
            for rank in range(count)
        ]
        sizes = [sum(c.counts[rank] * c.size_of_one for c in columns) for rank in range(count)]
        incoming = self._comm.all_to_all(outgoing, sizes, channel=self._channel)
        swapped: list[list[Array]] = []
        at = [0] * count
        for column in columns:
            like = column.parts[0]
            parts = []
            for rank in range(count):
                end = at[rank] + column.counts[rank] * column.size_of_one
                own = incoming[rank][at[rank] : end].copy()  # where it stands, it is not aligned
                parts.append(own.view(like.dtype).reshape(column.counts[rank], *like.shape[1:]))
                at[rank] = end
            swapped.append(parts)
        return swapped

    def _route(self, name: str, listed: UniqueIds) -> Route | None:
        if name not in self._sharded:
            return None
        return route(self._stores[name].table, listed.ids_N, num_shards=self._comm.size)

    def _positions(self, its: Route | None, num_ids: int) -> list[Array]:
        if its is None or self._comm.size == 1:
            return [np.arange(num_ids)] * self._comm.size
        return np.split(its.order_N, its.ends[:-1])

    def _read(self, name: str, ids_N: Array) -> Rows:
        rows_ND, is_there_N = self._stores[name].table.read(ids_N, as_new=False)
        return Rows(rows_ND=rows_ND, is_there_N=is_there_N)

    def _read_received(self, name: str, sent: Sent) -> tuple[list[Array], list[Array]]:
        """Return the rows of the ids that came from each rank, and which are there."""
        ends = np.cumsum([len(one.ids_N) for one in sent.received])[:-1]
        found = self._read(name, np.concatenate([one.ids_N for one in sent.received]))
        return np.split(found.rows_ND, ends), np.split(found.is_there_N, ends)


def _all_grads(listed: UniqueIds, step: RowUpdate) -> tuple[Array, Array]:
    """Return a gradient for every listed id, and which of them are real."""
    ids_N, grads_MD = listed.ids_N, step.grads_MD
    if len(grads_MD) == len(ids_N):
        return grads_MD, np.ones(len(ids_N), np.uint8)
    is_real_N = np.isin(ids_N, step.ids.ids_N[: len(grads_MD)])
    grads_ND = np.zeros((len(ids_N), grads_MD.shape[1]), np.float32)
    grads_ND[is_real_N] = grads_MD
    return grads_ND, is_real_N.astype(np.uint8)
