"""Recovers a table from its log, trains on, and prints the number of every record it has safe."""

import itertools
import sys
from pathlib import Path

import numpy as np

from fleetrec._native import TableLog, replay_log
from making_tables import make_native_table, train_and_log


def make_table():
    return make_native_table(dim=4, optimizer="adam", admission=("count", 2.0, 0.0, 0.0))


def train_step(table, log, step):
    """Do step number ``step``, which is the same whoever does it; its record has this number."""
    rng = np.random.default_rng(step)
    ids = rng.integers(0, 300, size=rng.integers(1, 200))
    labels = rng.integers(0, 2, size=len(ids)).astype(np.float32)
    evicted = rng.integers(0, 300, size=3) if step % 5 == 0 else ()
    train_and_log(
        table, log, ids, now=step, labels=labels, evicted=evicted, worker=3, sequence=step
    )


def segments_in(folder):
    return sorted(folder.glob("*.log"))


def recover(table, folder):
    """Replay all segments and cut a torn tail; returns what the replay told."""
    return replay_log([table], segments_in(folder), torn_tail="truncate")


def main(folder):
    table = make_table()
    first_lsn = recover(table, folder)["last_lsn"] + 1
    path = folder / f"{first_lsn:08d}.log"
    path.unlink(missing_ok=True)  # a segment without a whole record
    log = TableLog(path, [table], first_lsn=first_lsn)
    for step in itertools.count(first_lsn):
        train_step(table, log, step)
        if step % 3 != 0:  # several records in one commit
            sys.stdout.write(f"{log.commit('process')}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
