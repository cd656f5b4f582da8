"""A small job of servers and workers, in which every sample can be told from all others."""

import dataclasses
import json

import numpy as np

from making import columns_of, make_job, make_slot_text, tables_of, tensors_of, write_job

FIRST_OWN_ID = 1_000_000  # above all ids that samples share
BATCH_SIZE = 8
NUM_WORKERS = 2
NUM_SERVERS = 2
RUNNER = "train"
AUC_TOLERANCE = 0.02  # where workers do not wait for each other, on so few samples
ROUNDING = 1e-9  # of sums of floats, which are added in another order after a restart


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """How long a job is, and how its workers agree."""

    mode: str = "sync"
    num_epochs: int = 24
    num_steps: int = 20  # of each worker in an epoch
    extra: dict = dataclasses.field(default_factory=dict)  # keys of the runner

    @property
    def num_samples(self):
        return NUM_WORKERS * self.num_steps * BATCH_SIZE


def make_workspace(folder, plan):
    """Write the data and the job; slot 3 of a sample is an id that no other sample has."""
    data = folder / "data"
    data.mkdir(parents=True)
    lines = make_slot_text(plan.num_samples).splitlines()
    own = [
        f"{line.rpartition(' ')[0]} 3:{FIRST_OWN_ID + number}\n"
        for number, line in enumerate(lines)
    ]
    for index, part in enumerate(np.array_split(np.array(own), NUM_WORKERS)):
        (data / f"part-{index}").write_text("".join(part))
    runner = {
        "class": "local_cluster",
        "worker_num": NUM_WORKERS,
        "server_num": NUM_SERVERS,
        "distribute_strategy": plan.mode,
        "max_restarts": 1000,
        "print_interval": 1000,
    }
    job = make_job(data, epochs=plan.num_epochs, batch_size=BATCH_SIZE, **{**runner, **plan.extra})
    job["hyper_parameters"]["distributed_embedding"] = 1
    return write_job(job, folder / "config.yaml")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """What a run has left behind."""

    tensors: dict
    figures: dict  # of every epoch
    shows: dict  # of every id that one sample has


def result_of(folder, plan):
    """Read the last checkpoint and the figures of all epochs."""
    checkpoint = folder / "ckpt" / str(plan.num_epochs - 1)
    return Result(
        tensors=tensors_of(checkpoint), figures=_figures(folder), shows=_shows(checkpoint)
    )


def problems_of(result, plan, unbroken):
    """Say what is not as in ``unbroken``, runs that nothing disturbed; a line each.

    Where workers do not wait for each other, no two runs are equal, and the worst counts.
    """
    problems = audit(result, plan)
    first = unbroken[0]
    for epoch, expected in first.figures.items():
        found = result.figures.get(epoch, {})
        if found.get("SAMPLES") != plan.num_samples:
            problems.append(f"epoch {epoch}: {found.get('SAMPLES')} samples were counted")
        elif plan.mode == "sync" and not _are_equal(found, expected):
            problems.append(f"epoch {epoch}: figures {found} instead of {expected}")
    if plan.mode == "sync":
        names = sorted(result.tensors.keys() | first.tensors.keys())
        changed = [n for n in names if result.tensors.get(n) != first.tensors.get(n)]
        problems += [f"{name}: not the same to the last bit" for name in changed]
    last = str(plan.num_epochs - 1)
    found, *others = (one.figures[last]["AUC"] for one in (result, *unbroken))
    expected = min(others)
    if found < expected - AUC_TOLERANCE:
        problems.append(f"AUC {found:.4f} instead of {expected:.4f}")
    return problems


def audit(result, plan):
    """Say what tells that a sample was lost or counted twice."""
    problems = []
    if len(result.shows) != plan.num_samples:
        problems.append(f"{len(result.shows)} of {plan.num_samples} samples have left a row")
    wrong = {i: count for i, count in result.shows.items() if count != plan.num_epochs}
    if wrong:
        some = dict(list(wrong.items())[:5])
        problems.append(f"{len(wrong)} samples were not seen {plan.num_epochs} times: {some}")
    return problems


def _are_equal(found, expected):
    exact = ("AUC", "SAMPLES")  # made of whole numbers
    return found.keys() == expected.keys() and all(
        found[name] == value
        if name in exact or value is None
        else abs(found[name] - value) <= ROUNDING * max(1.0, abs(value))
        for name, value in expected.items()
    )


def _shows(checkpoint):
    shows = {}
    for _, _, stored in tables_of(checkpoint):
        columns = columns_of(stored)
        pairs = zip(columns["ids"].tolist(), columns["shows"].tolist(), strict=True)
        shows |= {number: count for number, count in pairs if number >= FIRST_OWN_ID}
    return shows


def _figures(folder):
    """Return the figures of every epoch, as they were told last."""
    lines = (folder / f"logs/{folder.name}.{RUNNER}/metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    return {r["epoch"]: r["metrics"] for r in records if r["event"] == "pass"}
