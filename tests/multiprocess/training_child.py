"""Trains in a folder, going on from its last checkpoint; saves after every batch."""

import os
import sys
from pathlib import Path

from making import make_data, make_job, run, write_job

CONFIG = Path("config.yaml")


def prepare(folder):
    """Write the data and a job of more epochs than anybody waits for."""
    data = make_data(folder / "data", num_samples=300)
    job = make_job(
        data,
        epochs=10_000,
        batch_size=16,
        save_step_interval=1,
        save_step_path="steps",
        save_checkpoint_base_interval=5,
    )
    job["hyper_parameters"] |= {
        "distributed_embedding": 1,
        "admission": {"kind": "count", "threshold": 2},
        "eviction": {"max_rows": 40},
    }
    write_job(job, folder / CONFIG)


def train(folder):
    """Train until killed."""
    os.chdir(folder)
    with Path("printed").open("a") as stream:
        sys.stdout = sys.stderr = stream
        run(CONFIG, resume=True)
