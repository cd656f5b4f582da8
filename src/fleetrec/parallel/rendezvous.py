"""Rendezvous of ranks over a store that survives restarts."""

import json
import secrets
import time
from typing import Any

from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]

from fleetrec.core.errors import LostRankError

POLL_S = 0.05

_LEADER, _HERE, _GO, _ROUNDS = "leader", "here", "go", "rounds"


def rendezvous(store: Store, *, index: int, count: int, timeout_s: float) -> tuple[Store, int]:
    """Return a store for these ranks only, and how many groups of ranks used the store before.

    Launchers of several machines do not agree on how often the ranks were started. So rank 0 writes
    a random name, and every rank answers under it with a random name of its own: what earlier ranks
    have left in the store matches neither.
    """
    own = secrets.token_hex(8)
    deadline = time.monotonic() + timeout_s
    if index == 0:
        store.set(_LEADER, own)
    while time.monotonic() < deadline:
        leader = _read(store, _LEADER)
        if leader is not None:
            store.set(f"{_HERE}/{leader}/{index}", own)
            if index == 0:
                _answer(store, leader, count)
            found = _read(store, f"{_GO}/{leader}")
            group: dict[str, Any] = {"names": []} if found is None else json.loads(found)
            if own in group["names"]:
                return PrefixStore(leader, store), int(group["number"])
        time.sleep(POLL_S)
    missing = [i for i in range(count) if _read(store, f"{_HERE}/{leader}/{i}") is None]
    raise LostRankError(
        f"rank {', '.join(map(str, missing)) or '0'} of {count} did not start within "
        f"{timeout_s:g} s (rank_timeout); see its log"
    )


def _answer(store: Store, leader: str, count: int) -> None:
    """Publish the group once all ranks have answered."""
    names = [_read(store, f"{_HERE}/{leader}/{index}") for index in range(count)]
    if None not in names and _read(store, f"{_GO}/{leader}") is None:
        group = {"names": names, "number": store.add(_ROUNDS, 1) - 1}
        store.set(f"{_GO}/{leader}", json.dumps(group))


def _read(store: Store, key: str) -> str | None:
    return store.get(key).decode() if store.check([key]) else None
