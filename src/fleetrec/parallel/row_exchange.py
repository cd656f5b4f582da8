"""Rows and gradients on their way between ranks.

A table is spread over the ranks by its buckets, or each rank has a copy of it. In a step every rank
lists the different ids of its batch. Those of a spread table go to the ranks that hold them, those
of a copied one to all; with each goes how often it was seen. Rows come back, and later gradients go
the way that the ids went: who holds a row sums up what all ranks say of it, in their order, so
copies stay equal. Every exchange carries what all tables have to say.
"""

# Shape suffixes: N ids of one table, M of them with a gradient, D width of a row.

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.remote_lookup import Listed, Rows, RowStep
from fleetrec.embedding.sharding import Route, route
from fleetrec.parallel.ranks import Line, Ranks

Array = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The ids of one table that this rank has sent, and those that came to it, by rank."""

    listed: Listed
    way: Route | None  # None: the table is copied, so all ids went to everybody
    places: Sequence[Array]  # of the ids that went to each rank
    received: Sequence[Listed]


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
        ranks: Ranks,
        stores: Mapping[str, NativeStore],
        *,
        spread: Collection[str],
        line: Line = "steps",
    ) -> None:
        self._ranks = ranks
        self._line = line
        self._stores = stores
        self._spread = frozenset(spread)

    def on_other_line(self) -> "RowExchange":
        """Return the same exchange for another thread, which must not cross this one."""
        return RowExchange(self._ranks, self._stores, spread=self._spread, line="ahead")

    def send_ids(self, listed: Mapping[str, Listed]) -> dict[str, Sent]:
        """Tell the holders of rows which ids this rank has seen, and how often."""
        if not listed:
            return {}
        ways = {name: self._way(name, its) for name, its in listed.items()}
        places = {name: self._places(ways[name], len(its.ids_N)) for name, its in listed.items()}
        outgoing = np.array([[len(part) for part in its] for its in places.values()], np.int64)
        incoming = self._ranks.exchange_counts(
            outgoing.reshape(len(listed), -1).T, line=self._line
        ).T
        counts = dict(zip(listed, incoming.tolist(), strict=True))
        columns = [
            _Column(parts=[column[part] for part in places[name]], counts=counts[name])
            for name, column in (
                *((name, its.ids_N) for name, its in listed.items()),
                *((name, its.shows_N) for name, its in listed.items()),
                *((name, its.clicks_N) for name, its in listed.items()),
            )
        ]
        swapped = self._swap(columns)
        size = len(listed)
        sent = {}
        for place, (name, its) in enumerate(listed.items()):
            found = zip(*(swapped[place + size * column] for column in range(3)), strict=True)
            received = [Listed(ids_N=i, shows_N=s, clicks_N=c) for i, s, c in found]
            sent[name] = Sent(listed=its, way=ways[name], places=places[name], received=received)
        return sent

    def see(self, sent: Mapping[str, Sent], *, now: int) -> None:
        """Count here what all ranks have seen; some ids may get rows."""
        for name, its in sent.items():
            for one in its.received:
                if len(one.ids_N):
                    self._stores[name].table.see(one.ids_N, one.shows_N, one.clicks_N, now=now)

    def rows(self, sent: Mapping[str, Sent]) -> dict[str, Rows]:
        """Return the rows of the ids that this rank has sent, in the order of its lists."""
        spread = {name: its for name, its in sent.items() if its.way is not None}
        found = {name: self._read_received(name, its) for name, its in spread.items()}
        counts = {name: [len(part) for part in its.places] for name, its in spread.items()}
        swapped = self._swap(
            [
                *(_Column(parts=found[n][0], counts=counts[n]) for n in spread),
                *(_Column(parts=found[n][1], counts=counts[n]) for n in spread),
            ]
        )
        copied = {name: its.listed.ids_N for name, its in sent.items() if its.way is None}
        rows = {name: self._read(name, ids_N) for name, ids_N in copied.items()}
        for place, (name, its) in enumerate(spread.items()):
            assert its.way is not None
            rows[name] = Rows(
                rows_ND=its.way.join(swapped[place]),
                is_there_N=its.way.join(swapped[place + len(spread)]),
            )
        return rows

    def push(
        self,
        sent: Mapping[str, Sent],
        steps: Mapping[str, RowStep],
        *,
        scale: float,
        rates: Mapping[str, float],
    ) -> None:
        """Send gradients to the holders of rows, and apply here what came from all ranks.

        The sum over the ranks is multiplied by ``scale``.
        """
        grads = {name: _all_grads(its.listed, steps[name]) for name, its in sent.items()}
        counts = {name: [len(one.ids_N) for one in its.received] for name, its in sent.items()}
        swapped = self._swap(
            [
                _Column(parts=[grads[n][column][p] for p in its.places], counts=counts[n])
                for column in range(2)
                for n, its in sent.items()
            ]
        )
        for place, (name, its) in enumerate(sent.items()):
            ids_N = np.concatenate([one.ids_N for one in its.received])
            grads_ND = np.concatenate(swapped[place])
            is_real_N = np.concatenate(swapped[place + len(sent)]).astype(np.bool_)
            if not is_real_N.all():
                ids_N, grads_ND = ids_N[is_real_N], grads_ND[is_real_N]
            if len(ids_N):
                grads_ND *= np.float32(scale)
                self._stores[name].table.push(ids_N, grads_ND, lr=rates[name])

    def _swap(self, columns: Sequence[_Column]) -> list[list[Array]]:
        """Send every rank its part of all columns; returns by column what came, by rank."""
        count = self._ranks.count
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
        incoming = self._ranks.exchange(outgoing, sizes, line=self._line)
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

    def _way(self, name: str, listed: Listed) -> Route | None:
        if name not in self._spread:
            return None
        return route(self._stores[name].table, listed.ids_N, num_shards=self._ranks.count)

    def _places(self, way: Route | None, num_ids: int) -> list[Array]:
        if way is None or self._ranks.count == 1:
            return [np.arange(num_ids)] * self._ranks.count
        return np.split(way.order_N, way.ends[:-1])

    def _read(self, name: str, ids_N: Array) -> Rows:
        rows_ND, is_there_N = self._stores[name].table.read(ids_N, as_new=False)
        return Rows(rows_ND=rows_ND, is_there_N=is_there_N)

    def _read_received(self, name: str, sent: Sent) -> tuple[list[Array], list[Array]]:
        """Return the rows of the ids that came from each rank, and which are there."""
        ends = np.cumsum([len(one.ids_N) for one in sent.received])[:-1]
        found = self._read(name, np.concatenate([one.ids_N for one in sent.received]))
        return np.split(found.rows_ND, ends), np.split(found.is_there_N, ends)


def _all_grads(listed: Listed, step: RowStep) -> tuple[Array, Array]:
    """Return a gradient for every listed id, and which of them are real."""
    ids_N, grads_MD = listed.ids_N, step.grads_MD
    if len(grads_MD) == len(ids_N):
        return grads_MD, np.ones(len(ids_N), np.uint8)
    is_real_N = np.isin(ids_N, step.seen.ids_N[: len(grads_MD)])
    grads_ND = np.zeros((len(ids_N), grads_MD.shape[1]), np.float32)
    grads_ND[is_real_N] = grads_MD
    return grads_ND, is_real_N.astype(np.uint8)
