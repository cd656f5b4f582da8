"""What each server is to be told about a step."""

# Shape suffixes: N ids, M of them with a gradient, D width of a row.

import numpy as np

from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.remote_lookup import RowUpdate
from fleetrec.embedding.sharding import route
from fleetrec.server.push import RowPush


def split_update(store: NativeStore, step: RowUpdate, *, num_servers: int) -> list[RowPush]:
    """Return what each server is to be told about one table."""
    seen, num_grads = step.ids, len(step.grads_MD)
    whole = RowPush(
        ids_N=seen.ids_N, shows_N=seen.shows_N, clicks_N=seen.clicks_N, grads_MD=step.grads_MD
    )
    if num_servers == 1:
        return [whole]
    way = route(store.table, seen.ids_N, num_shards=num_servers)
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
