"""Find the ranks that were started together, at a store that remembers those before them."""

import json
import secrets
import time
from typing import Any

from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]

from fleetrec.core.errors import LostRankError

LOOK_S = 0.05

_LEADER, _HERE, _GO, _ROUNDS = "leader", "here", "go", "rounds"


def call_roll(store: Store, *, index: int, count: int, timeout_s: float) -> tuple[Store, int]:
    """Return a store for these ranks alone, and how many groups of ranks were there before.

    Launchers do not tell the ranks of several machines how often all of them were started, so the
    first rank calls them under a name of its own, and each answers with one of its own: names that
    are left from earlier ranks are nobody's.
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
            told = _read(store, f"{_GO}/{leader}")
            group: dict[str, Any] = {"names": []} if told is None else json.loads(told)
            if own in group["names"]:
                return PrefixStore(leader, store), int(group["number"])
        time.sleep(LOOK_S)
    missing = [i for i in range(count) if _read(store, f"{_HERE}/{leader}/{i}") is None]
    raise LostRankError(
        f"rank {', '.join(map(str, missing)) or '0'} of {count} did not start within "
        f"{timeout_s:g} s (rank_timeout); see its log"
    )


def _answer(store: Store, leader: str, count: int) -> None:
    """Tell all ranks who they are, once all have answered; one may answer again, so look anew."""
    names = [_read(store, f"{_HERE}/{leader}/{index}") for index in range(count)]
    if None not in names and _read(store, f"{_GO}/{leader}") is None:
        group = {"names": names, "number": store.add(_ROUNDS, 1) - 1}
        store.set(f"{_GO}/{leader}", json.dumps(group))


def _read(store: Store, key: str) -> str | None:
    return store.get(key).decode() if store.check([key]) else None
