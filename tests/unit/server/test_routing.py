"""Row updates are split by the server that holds the rows."""

import numpy as np

from fleetrec.embedding.sharding import WHOLE_TABLE, TableShard
from fleetrec.server.routing import empty_push, split_update
from fleetrec.server.spec import build_stores
from unit.server.serving import MODEL, make_rows

IDS = list(range(50))
NUM_GRADS = 20


def make_update():
    return make_rows(IDS, [[i, i] for i in IDS[:NUM_GRADS]])


def test_one_server_gets_everything():
    store = build_stores(MODEL, WHOLE_TABLE)["t"]
    (push,) = split_update(store, make_update(), num_servers=1)
    assert push.ids_N.tolist() == IDS


def test_every_server_gets_its_ids_and_their_gradients():
    store = build_stores(MODEL, WHOLE_TABLE)["t"]
    pushes = split_update(store, make_update(), num_servers=3)
    assert sorted(i for push in pushes for i in push.ids_N.tolist()) == IDS
    for index, push in enumerate(pushes):
        own = build_stores(MODEL, TableShard(index=index, count=3))["t"]
        own.table.check_held(push.ids_N)  # raises for ids of another server
        with_grad = push.ids_N[: len(push.grads_MD)].tolist()
        assert with_grad == [i for i in push.ids_N.tolist() if i < NUM_GRADS]
        assert push.grads_MD[:, 0].tolist() == with_grad


def test_an_empty_push_has_the_width_of_the_table():
    push = empty_push(build_stores(MODEL, WHOLE_TABLE)["u"])
    assert (len(push.ids_N), push.grads_MD.shape) == (0, (0, 3))
    assert push.grads_MD.dtype == np.float32
