"""Recovers a table from snapshots and log, trains on, logs, and writes snapshots now and then."""

import itertools
import shutil
import sys
from pathlib import Path

from fleetrec._native import Cut, TableLog, drop_segments, read_snapshot, replay_log
from fleetrec.checkpoint.publish import publish
from multiprocess.logging_child import make_table, segments_in, train_step

STEPS_PER_SNAPSHOT = 6
SNAPSHOTS_PER_BASE = 4


def snapshots_in(folder):
    """Return the folders of the newest base and of the deltas behind it."""
    published = sorted(path for path in folder.iterdir() if path.name.startswith("lsn-"))
    bases = [i for i, path in enumerate(published) if path.suffix == ".base"]
    return published[bases[-1] :] if bases else []


def recover(table, folder):
    """Read the newest chain and replay what the log has behind it; return what the replay told."""
    chain = snapshots_in(folder)
    lsn = read_snapshot(table, chain)["lsn"] if chain else 0
    return replay_log([table], segments_in(folder), after_lsn=lsn, torn_tail="truncate")


def start_segment(table, folder, first_lsn):
    path = folder / f"{first_lsn:08d}.log"
    path.unlink(missing_ok=True)  # a segment without a whole record
    return TableLog(path, [table], first_lsn=first_lsn)


def save(table, folder, lsn):
    """Publish a snapshot, then drop what it makes superfluous: segments, and older chains."""
    before = snapshots_in(folder)
    kind = "delta" if before and len(before) % SNAPSHOTS_PER_BASE else "base"
    cut = Cut(table)
    publish(
        folder / f"lsn-{lsn:08d}.{kind}",
        lambda staging: cut.write(staging, kind=kind, num_shards=3, lsn=lsn),
    )
    cut.commit()
    drop_segments(segments_in(folder), lsn)
    sweep(folder)


def sweep(folder):
    """Remove what does not belong to the newest chain: older ones, and what a kill left."""
    chain = snapshots_in(folder)
    for path in folder.iterdir():
        if path.is_dir() and path not in chain:
            shutil.rmtree(path)


def main(folder):
    sweep(folder)
    table = make_table()
    last_lsn = recover(table, folder)["last_lsn"]
    log = start_segment(table, folder, last_lsn + 1)
    for step in itertools.count(last_lsn + 1):
        train_step(table, log, step)
        sys.stdout.write(f"{log.commit('process')}\n")
        sys.stdout.flush()
        if step % STEPS_PER_SNAPSHOT == 0:
            log = start_segment(table, folder, step + 1)
            save(table, folder, step)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
