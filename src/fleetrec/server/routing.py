"""Which server holds which ids, and how parts that went to several come together again."""

# Shape suffixes: N ids, M of them with a gradient, D width of a row.

import dataclasses
from collections.abc import Sequence

import numpy as np

from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.remote_lookup import Rows, RowUpdate
from fleetrec.server.push import RowPush
from fleetrec.server.spec import NUM_BUCKETS, Portion
from fleetrec.server.wire import Array


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The ids of one table by server: places in the list, server after server."""

    order_N: Array
    ends: Array  # by server, where its places end

    def split(self, values_N: Array) -> list[Array]:
        """Return what belongs to each server."""
        if len(self.ends) == 1:
            return [values_N]
        return np.split(values_N[self.order_N], self.ends[:-1])

    def join(self, parts: Sequence[Rows]) -> Rows:
        """Put rows that came from all servers back into the order of the list."""
        if len(parts) == 1:
            return parts[0]
        rows_ND = np.empty((len(self.order_N), parts[0].rows_ND.shape[1]), np.float32)
        is_there_N = np.empty(len(self.order_N), np.uint8)
        rows_ND[self.order_N] = np.concatenate([part.rows_ND for part in parts])
        is_there_N[self.order_N] = np.concatenate([part.is_there_N for part in parts])
        return Rows(rows_ND=rows_ND, is_there_N=is_there_N)


def route(store: NativeStore, ids_N: Array, *, num_servers: int) -> Route:
    """Find the server of every id; those of one server keep their order."""
    if num_servers == 1:
        return Route(order_N=np.zeros(0, np.int64), ends=np.array([len(ids_N)]))
    ends = np.array([Portion(index=i, count=num_servers).buckets[1] for i in range(num_servers)])
    server_of = np.searchsorted(ends, np.arange(NUM_BUCKETS), side="right").astype(np.uint16)
    servers_N = server_of[store.table.buckets_of(ids_N)]
    counts = np.bincount(servers_N, minlength=num_servers)
    return Route(order_N=np.argsort(servers_N, kind="stable"), ends=np.cumsum(counts))


def split_step(store: NativeStore, step: RowUpdate, *, num_servers: int) -> list[RowPush]:
    """Return what each server is to be told about one table."""
    seen, num_grads = step.ids, len(step.grads_MD)
    whole = RowPush(
        ids_N=seen.ids_N, shows_N=seen.shows_N, clicks_N=seen.clicks_N, grads_MD=step.grads_MD
    )
    if num_servers == 1:
        return [whole]
    way = route(store, seen.ids_N, num_servers=num_servers)
    pushes = []
    for places in np.split(way.order_N, way.ends[:-1]):  # rising, so gradients stay in front
        its = seen.at(places)
        pushes.append(
            RowPush(
                ids_N=its.ids_N,
                shows_N=its.shows_N,
                clicks_N=its.clicks_N,
                grads_MD=step.grads_MD[places[places < num_grads]],
            )
        )
    return pushes


def empty_push(store: NativeStore) -> RowPush:
    """Return a push that says nothing, for a table that is frozen."""
    none = np.zeros(0, np.uint32)
    return RowPush(
        ids_N=np.zeros(0, np.int64),
        shows_N=none,
        clicks_N=none,
        grads_MD=np.zeros((0, store.dim), np.float32),
    )
