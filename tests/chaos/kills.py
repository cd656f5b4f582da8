"""Deaths at chosen places: who dies where, and how a job with many of them goes."""

import dataclasses
import time

# Where a process is when it dies, in words, and the place in the code; see core/fault_points.py.
SERVER_PLACES = {
    "pull": "pull",
    "push, before the log": "push",
    "push, after the log": "push_logged",
    "push, before the answer": "push_done",
    "barrier, before the log": "step",
    "barrier, after the log": "step_logged",
    "barrier, after apply": "step_done",
    "end of a pass": "leave",
    "any answer": "answer",
    "writing a checkpoint": "save",
    "writing a snapshot": "snapshot",
    "publishing a snapshot": "publish",
    "snapshot published": "snapshot_published",
    "replay": "replay",
}
WORKER_PLACES = {
    "pull": "pull",
    "compute": "compute",
    "push": "push",
    "push, answered by one server": "answered",
    "push, answered by all": "push_done",
    "end of a pass": "leave",
    "end of a pass, answered": "leave_done",
}
CHIEF_PLACES = {"writing a checkpoint": "save", "publishing a checkpoint": "publish"}
RARE = {"leave", "leave_done", "save", "publish", "snapshot", "snapshot_published"}
MAX_COUNT = 6  # how often a place is passed before the one at which a process dies
AT_ONCE = 3  # processes at most that are to die at about the same time


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kill:
    """One death to come."""

    role: str
    words: str
    place: str

    @property
    def name(self):
        return f"{self.role}: {self.words}"

    @property
    def indexes(self):
        return (0,) if self.words in CHIEF_PLACES and self.role == "worker" else (0, 1)


@dataclasses.dataclass(slots=True, kw_only=True)
class Injected:
    """A fault that took place, and how long the process was out of work."""

    name: str
    seconds: float | None = None


def all_kills():
    """Return every death of the matrix once."""
    places = {"server": SERVER_PLACES, "worker": WORKER_PLACES | CHIEF_PLACES}
    return [
        Kill(role=role, words=words, place=place)
        for role, its in places.items()
        for words, place in its.items()
    ]


def inject(job, kills, rng):
    """Let all deaths come, in waves of a few processes; returns those that came before the end."""
    waiting = [kills[number] for number in rng.permutation(len(kills))]
    injected = []
    while waiting and not job.is_over():
        injected += _wave(job, waiting, rng)
    job.cancel_orders()
    return injected


def _wave(job, waiting, rng):
    """Order some deaths, and wait until all who died are at work again."""
    victims = {}
    for kill in waiting[: rng.integers(1, AT_ONCE + 1)]:
        process = f"{kill.role}.{rng.choice(kill.indexes)}"
        if process not in victims:
            victims[process] = kill
    orders = {name: _order(job, name, kill, rng) for name, kill in victims.items()}
    for kill in victims.values():
        waiting.remove(kill)
    injected = []
    deaths = {}
    notes = {}
    while len(injected) < len(orders):
        job.wait_for(
            lambda: (
                any(n not in deaths and not o.exists() for n, o in orders.items())
                or any(not p.exists() for its in notes.values() for p in its)
            ),
            f"{[victims[name].name for name in orders]}",
        )
        now = time.monotonic()
        for name, order in orders.items():
            if name not in deaths and not order.exists():
                deaths[name] = now
                notes[name] = _ask_for_news(job, name)
        for name in [n for n, its in notes.items() if not all(p.exists() for p in its)]:
            injected.append(Injected(name=victims[name].name, seconds=now - deaths[name]))
            for path in notes.pop(name):
                path.unlink(missing_ok=True)
        if job.is_over():
            seen = {one.name for one in injected}
            lost = [victims[n].name for n in deaths if victims[n].name not in seen]
            return injected + [Injected(name=name) for name in lost]
    return injected


def _order(job, process, kill, rng):
    count = 1 if kill.place in RARE else int(rng.integers(1, MAX_COUNT))
    if kill.place != "replay":
        return job.order(process, kill.place, count=count)
    order = job.order(process, "replay")  # of the successor of one that dies soon
    job.order(process, "answer", count=count)
    return order


def at_work(job, process):
    """Wait until a process does its work; returns False if the job ended before."""
    notes = _ask_for_news(job, process)
    found = job.wait_for(lambda: not all(path.exists() for path in notes), f"work of {process}")
    for path in notes:
        path.unlink(missing_ok=True)
    return found


def _ask_for_news(job, process):
    """Let the successor of a process tell when it is at work: it answers, computes, or is done."""
    places = ("answer",) if process.startswith("server") else ("compute", "leave")
    return [job.order(process, place, word="note") for place in places]
