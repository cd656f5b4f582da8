"""A small online run in which every sample has an id of its own, and what the run leaves."""

import dataclasses
import subprocess
import sys

import numpy as np

from chaos.workspace import NUM_SERVERS, NUM_WORKERS
from fleetrec.core.env import FAULTS, environment_with
from fleetrec.core.event_time import day_after
from fleetrec.export.done_files import read_checkpoints, read_models
from fleetrec.export.follower import Follower
from fleetrec.export.manifest import open_model
from fleetrec.export.row_files import read_removed, read_rows
from making import columns_of, tables_of, tensors_of, write_job
from making_online import make_online_job, make_split, split_names
from storing_runs import feeds

FIRST_DAY = "20261116"
FIRST_OWN_ID = 1_000_000
EVICTION = {"max_unseen_days": 1}
CLUSTERS = {
    "one process": {},
    "sync": {"worker_num": NUM_WORKERS, "server_num": NUM_SERVERS, "distribute_strategy": "sync"},
    "async": {"worker_num": NUM_WORKERS, "server_num": NUM_SERVERS, "distribute_strategy": "async"},
    "ranks": {"worker_num": NUM_WORKERS, "fleet_mode": "collective"},
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class OnlinePlan:
    """How long an online run is, and which processes make it."""

    mode: str
    num_days: int = 2
    minutes: int = 480  # of a pass
    num_samples: int = 120  # of a pass
    batch_size: int = 20
    extra: dict = dataclasses.field(default_factory=dict)  # keys of the runner

    @property
    def days(self):
        return [day_after(FIRST_DAY, days=number) for number in range(self.num_days)]

    @property
    def next_day(self):
        return day_after(FIRST_DAY, days=self.num_days)

    @property
    def num_passes(self):
        return self.num_days * 24 * 60 // self.minutes

    @property
    def is_repeatable(self):
        """Whether two runs that nothing disturbs have equal results."""
        return self.mode != "async"


def make_online_workspace(folder, plan):
    """Write the data of all days and the job."""
    names = [(day, name) for day in plan.days for name in split_names(plan.minutes)]
    for seed, (day, name) in enumerate(names):
        make_split(folder / "data" / day / name, seed=seed, num_samples=plan.num_samples)
    runner = CLUSTERS[plan.mode]
    if runner:
        runner = {**runner, "max_restarts": 1000}
    job = make_online_job(
        folder / "data",
        start_day=plan.days[0],
        end_day=plan.days[-1],
        split_interval=plan.minutes,
        **{**runner, **plan.extra},
    )
    job["dataset"][0]["batch_size"] = plan.batch_size
    job["hyper_parameters"]["eviction"] = EVICTION
    return write_job(job, folder / "config.yaml")


@dataclasses.dataclass(frozen=True, kw_only=True)
class OnlineResult:
    """What an online run has left behind."""

    tensors: dict  # of the last checkpoint
    shows: dict  # of every id that one sample has, in the checkpoints at the ends of days
    checkpoints: list  # lines of donefile.txt
    models: dict  # serving models by their entry in done files
    day_ends: list  # ids of the bases
    predictions: bytes


def online_result(folder, plan, *, model=None):
    """Read the last checkpoint, the done files, and every serving model that they name."""
    save = str(folder / "model") if model is None else model
    days = [*plan.days[1:], plan.next_day]
    shows = {}
    for day in days:  # later ones lack what was evicted
        shows |= _shows(f"{save}/{day}/0")
    entries = [(kind, one) for kind in ("base", "delta") for one in read_models(save, kind)]
    return OnlineResult(
        tensors=tensors_of(f"{save}/{plan.next_day}/0"),
        shows=shows,
        checkpoints=[one.to_line().replace(save, "model") for one in read_checkpoints(save)],
        models={
            (kind, one.id, one.key, one.path): _content(one.url(save)) for kind, one in entries
        },
        day_ends=[one.id for kind, one in entries if kind == "base"],
        predictions=Follower(save).predict(feeds())["predict"].tobytes(),
    )


def online_problems(result, plan, unbroken):
    """Say what is not as in ``unbroken``, a run that nothing disturbed; a line each."""
    problems = online_audit(result, plan)
    if not plan.is_repeatable:
        return problems
    names = sorted(result.tensors.keys() | unbroken.tensors.keys())
    changed = [n for n in names if result.tensors.get(n) != unbroken.tensors.get(n)]
    problems += [f"{name}: not the same to the last bit" for name in changed]
    if result.predictions != unbroken.predictions:
        problems.append("a follower gives other predictions")
    if plan.mode in ("one process", "ranks"):  # they repeat what was not published
        problems += _other_publications(result, unbroken)
    return problems


def online_audit(result, plan):
    """Return samples that were lost or trained twice, and days that were not published."""
    problems = []
    expected = plan.num_passes * plan.num_samples
    if len(result.shows) != expected:
        problems.append(f"{len(result.shows)} of {expected} samples have left a row")
    wrong = {i: count for i, count in result.shows.items() if count != 1}
    if wrong:
        some = dict(list(wrong.items())[:5])
        problems.append(f"{len(wrong)} samples were not trained once: {some}")
    missing = set(plan.days[1:]) - {line.split("\t")[0] for line in _day_ends(result)}
    if missing:
        problems.append(f"no line of donefile.txt about the end of the day before {missing}")
    if len(result.day_ends) < plan.num_days:
        problems.append(f"{len(result.day_ends)} bases were published, of {plan.num_days} days")
    return problems


def _other_publications(result, unbroken):
    problems = []
    if result.checkpoints != unbroken.checkpoints:
        lines = set(result.checkpoints) ^ set(unbroken.checkpoints)
        problems.append(f"donefile.txt differs, or its order: {sorted(lines)}")
    entries = sorted(result.models.keys() | unbroken.models.keys())
    changed = [one for one in entries if result.models.get(one) != unbroken.models.get(one)]
    problems += [f"serving model {one}: missing, not expected, or other rows" for one in changed]
    return problems


def _day_ends(result):
    return [line for line in result.checkpoints if line.split("\t")[3] == "-1"]


def _shows(checkpoint):
    found = {}
    for _, _, stored in tables_of(checkpoint):
        columns = columns_of(stored)
        pairs = zip(columns["ids"].tolist(), columns["shows"].tolist(), strict=True)
        found |= {number: count for number, count in pairs if number >= FIRST_OWN_ID}
    return found


def _content(url):
    """Return the rows of a serving model, and the ids that it removes."""
    folder, manifest = open_model(url)
    content = {}
    for name, table in manifest.tables.items():
        rows = list(read_rows(folder, table))
        ids_N = np.concatenate([ids for ids, _ in rows] or [np.zeros(0, np.uint64)])
        rows_ND = np.concatenate([its for _, its in rows] or [np.zeros((0, table.dim))])
        order_N = np.argsort(ids_N)
        removed_N = np.sort(read_removed(folder, table))
        parts = (ids_N[order_N], rows_ND[order_N], removed_N)
        content[name] = (table.content, *(part.tobytes() for part in parts))
    return content


class OnlineProcess:
    """An online run of one process, which can be ordered to die; ends with the block."""

    def __init__(self, folder, *words):
        self._folder = folder
        self.faults = folder / "faults" / "process.0"
        self.output = folder / "output"
        self.command = [sys.executable, "-m", "fleetrec.online", "-m", "config.yaml", *words]
        added = {FAULTS: str(self.faults.parent)}
        self.environment = environment_with(added, unless_set={"OMP_NUM_THREADS": "1"})

    def __enter__(self):
        self.faults.mkdir(parents=True, exist_ok=True)
        with self.output.open("ab") as stream:
            self.process = subprocess.Popen(
                self.command,
                cwd=self._folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
            )
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def wait(self, *, seconds=240.0):
        """Wait for the end; returns the status."""
        return self.process.wait(timeout=seconds)

    def tail(self):
        return self.output.read_text()[-3000:]


def order(faults, point, *, count=1, word="kill"):
    """Let a process die, stop, or tell that it came by, when it reaches a point."""
    faults.mkdir(parents=True, exist_ok=True)
    (faults / point).write_text(f"{count} {word}")
    return faults / point
