"""What indexes of items find, compared with brute force: recall@100, time to build and to search.

The vectors are drawn from a normal distribution, in which an index has nothing to go by: those of
trained models, which form clusters, are found more easily.

usage: python -m benchmarks.recall_index [--items 200000] [--dim 32] [--users 500] [--topk 100]
"""

import argparse
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from fleetrec.export.item_files import build_index
from fleetrec.export.item_index import BruteForce, FaissSearch, Floats, recall_at
from fleetrec.export.manifest import IndexType

T = TypeVar("T")

KINDS: tuple[IndexType, ...] = ("exact", "ivf", "hnsw")


def main() -> None:
    """Print one line per index."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--items", type=int, default=200_000)
    parser.add_argument("--dim", type=int, default=32)
    parser.add_argument("--users", type=int, default=500)
    parser.add_argument("--topk", type=int, default=100)
    given = parser.parse_args()
    draw = np.random.default_rng(0)
    items_ND: Floats = draw.standard_normal((given.items, given.dim), np.float32)
    users_BD: Floats = draw.standard_normal((given.users, given.dim), np.float32)
    brute_force = BruteForce(vectors_ND=items_ND)
    (exact_BT, _), seconds = timed(lambda: brute_force.search(users_BD, given.topk))
    print(f"{'index':<12} build s  recall@{given.topk}  ms/user")
    print(f"{'brute force':<12} {0:7.1f} {1:11.4f} {1000 * seconds / given.users:8.2f}", flush=True)
    for kind in KINDS:
        index, build_s = timed(lambda kind=kind: build_index(items_ND, kind))  # type: ignore[misc]
        search = FaissSearch(index=index)
        (found_BT, _), seconds = timed(lambda it=search: it.search(users_BD, given.topk))  # type: ignore[misc]
        recall = recall_at(found_BT, exact_BT)
        user_ms = 1000 * seconds / given.users
        print(f"{kind:<12} {build_s:7.1f} {recall:11.4f} {user_ms:8.2f}", flush=True)


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """Return a result, and the seconds that it took."""
    begin = time.perf_counter()
    result = work()
    return result, time.perf_counter() - begin


if __name__ == "__main__":
    main()
