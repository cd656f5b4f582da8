"""One rank of the exchange benchmark: trains on a part of the data, and writes what it has sent.

usage: python -m benchmarks.exchange_rank PART BATCH_SIZE PLACEMENT FOLDER
"""

import dataclasses
import itertools
import json
import statistics
import sys
import time
from pathlib import Path

import torch

from benchmarks.job import dnn_run
from fleetrec._native import keep_freed_memory
from fleetrec.config.job import ClusterOptions
from fleetrec.core.env import read_place
from fleetrec.core.progress import Progress
from fleetrec.parallel.rank_comm import RankComm
from fleetrec.parallel.rank_group import RankGroup
from fleetrec.train.phase import build_phase

TIMEOUT_S = 300.0


def main(part: str, batch_size: str, placement: str, folder: str) -> None:
    """Train through the part once, in whole batches."""
    keep_freed_memory()  # as a run does
    place = read_place()
    assert place is not None
    comm = RankComm(place, device=torch.device("cpu"), timeout_s=TIMEOUT_S)
    cluster = ClusterOptions.model_validate(
        {"num_workers": comm.size, "fleet_mode": "collective", "placement": placement}
    )
    run = dnn_run(Path(part), batch_size=int(batch_size), cluster=cluster)
    group = RankGroup(comm, cluster)
    phase = build_phase(run.phases[0], run, group)
    progress = Progress()
    times = [time.perf_counter()]
    with phase.loader.epoch(0) as batches:
        for batch in group.align_steps(batches, phase.loader.inputs):
            if batch.num_samples < run.phases[0].dataset.batch_size:  # the last one, on all ranks
                break
            progress = progress.after_batch(batch.cursor)
            phase.stepper.train(batch, progress=progress)
            times.append(time.perf_counter())
    step_s = statistics.median(after - before for before, after in itertools.pairwise(times))
    traffic = {**dataclasses.asdict(comm.traffic), "num_steps": progress.step}
    counted = {**traffic, "step_s": step_s}
    (Path(folder) / f"{comm.rank}.json").write_text(json.dumps(counted), encoding="utf-8")
    group.close(finished=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
