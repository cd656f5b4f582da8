"""Splits the row updates of a step by server."""

# Shape suffixes: N ids, M of them with a gradient, D width of a row.

import numpy as np

from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.remote_lookup import RowUpdate
from fleetrec.embedding.sharding import route
from fleetrec.server.push import RowPush


def split_update(store: NativeStore, update: RowUpdate, *, num_servers: int) -> list[RowPush]:
    """Return one push per server for one table."""
    ids, num_grads = update.ids, len(update.grads_MD)
    whole = RowPush(
        ids_N=ids.ids_N, shows_N=ids.shows_N, clicks_N=ids.clicks_N, grads_MD=update.grads_MD
    )
    if num_servers == 1:
        return [whole]
    split = route(store.table, ids.ids_N, num_shards=num_servers)
    pushes = []
    # Positions of one server rise, so that ids with a gradient stay in front.
    for positions in np.split(split.order_N, split.ends[:-1]):
        own = ids.at(positions)
        pushes.append(
            RowPush(
                ids_N=own.ids_N,
                shows_N=own.shows_N,
                clicks_N=own.clicks_N,
                grads_MD=update.grads_MD[positions[positions < num_grads]],
            )
        )
    return pushes


def empty_push(store: NativeStore) -> RowPush:
    """Return a push without ids, for a frozen table."""
    none = np.zeros(0, np.uint32)
    return RowPush(
        ids_N=np.zeros(0, np.int64),
        shows_N=none,
        clicks_N=none,
        grads_MD=np.zeros((0, store.dim), np.float32),
    )
