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
from fleetrec.parallel.collective import CollectiveStrategy
from fleetrec.parallel.ranks import Ranks
from fleetrec.train.phase import build_phase

TIMEOUT_S = 300.0


def main(part: str, batch_size: str, placement: str, folder: str) -> None:
    """Train through the part once, in whole batches."""
    keep_freed_memory()  # as a run does
    place = read_place()
    assert place is not None
    ranks = Ranks(place, device=torch.device("cpu"), timeout_s=TIMEOUT_S)
    cluster = ClusterOptions.model_validate(
        {"num_workers": ranks.count, "fleet_mode": "collective", "placement": placement}
    )
    run = dnn_run(Path(part), batch_size=int(batch_size), cluster=cluster)
    phase = build_phase(run.phases[0], run, ranks)
    strategy = phase.strategy
    assert isinstance(strategy, CollectiveStrategy)
    times = [time.perf_counter()]
    with phase.loader.epoch(0) as batches:
        for batch in strategy.together(batches, phase.loader.inputs):
            if batch.num_samples < run.phases[0].dataset.batch_size:  # the last one, on all ranks
                break
            strategy.train_step(batch)
            times.append(time.perf_counter())
    step_s = statistics.median(after - before for before, after in itertools.pairwise(times))
    counted = {**dataclasses.asdict(strategy.traffic), "step_s": step_s}
    (Path(folder) / f"{ranks.index}.json").write_text(json.dumps(counted), encoding="utf-8")
    strategy.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
