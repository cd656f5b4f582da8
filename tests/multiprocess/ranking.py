"""Real ranks as processes of this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from torch.distributed import TCPStore

from fleetrec.core.launchers.own import place_environment
from fleetrec.core.place import Place
from making import columns_of, tables_of

TESTS = Path(__file__).parents[1]
DEADLINE_S = 240


def run_ranks(jobs, *, count, folder):
    """Train jobs on several ranks; all must end well."""
    arguments = ["-m", "multiprocess.rank_child", json.dumps(jobs)]
    return start_ranks(arguments, count=count, folder=folder)


def start_ranks(arguments, *, count, folder):
    """Run Python with these arguments on several ranks; all must end well. Returns their logs."""
    folder.mkdir(parents=True, exist_ok=True)
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    processes, logs = [], []
    for rank in range(count):
        place = Place(rank=rank, num_workers=count, store=f"127.0.0.1:{store.port}")
        environment = {
            **os.environ,
            **place_environment(place),
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
        }
        logs.append(folder / f"rank.{rank}.log")
        with logs[-1].open("ab") as stream:
            processes.append(
                subprocess.Popen(
                    [sys.executable, *arguments],
                    cwd=TESTS,
                    env=environment,
                    stdout=stream,
                    stderr=stream,
                )
            )
    try:
        for process in processes:
            process.wait(DEADLINE_S)
    finally:
        for process in processes:
            process.kill()
    tails = "\n".join(f"== {log.name}\n{log.read_text()[-3000:]}" for log in logs)
    assert all(process.returncode == 0 for process in processes), tails
    return [log.read_text() for log in logs]


def numbers_of(checkpoint):
    """All tensors of a checkpoint and all columns of its tables, but for the state of chance."""
    found = {
        f"{path.relative_to(checkpoint)}:{name}": value
        for path in sorted(Path(checkpoint).rglob("*.safetensors"))
        if path.stem not in ("random", "metrics")  # figures are compared as such
        for name, value in load_file(path).items()
    }
    for part, name, stored in tables_of(Path(checkpoint)):
        for column, value in columns_of(stored).items():
            found[f"{part}/tables/{name}:{column}"] = value
    return found


def assert_close(ours, theirs, *, atol):
    """Compare two checkpoints; 0 asks for equal bits."""
    mine, others = numbers_of(ours), numbers_of(theirs)
    assert mine.keys() == others.keys()
    for name, value in mine.items():
        np.testing.assert_allclose(value, others[name], rtol=0, atol=atol, err_msg=name)


def share_beyond(ours, theirs, *, atol):
    """Return the share of the numbers of two checkpoints that differ by more."""
    mine, others = numbers_of(ours), numbers_of(theirs)
    far = [np.abs(value.astype(np.float64) - others[name]) > atol for name, value in mine.items()]
    return sum(map(np.sum, far)) / sum(map(np.size, far))
