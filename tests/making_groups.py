"""Groups inside the test's own process: one process, and workers of real servers."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import torch

from fleetrec.config.job import ClusterOptions, CommunicatorOptions, OptimizerOptions
from fleetrec.core.batch import Batch
from fleetrec.core.cursor import Cursor
from fleetrec.core.jagged import KeyedJagged
from fleetrec.core.progress import Progress
from fleetrec.parallel.group import ModelOptions
from fleetrec.parallel.solo import SoloGroup
from fleetrec.parallel.worker_group import WorkerGroup
from fleetrec.server.client import ClientOptions
from unit.parallel.linear import Linear
from unit.server.serving import TOKEN, make_place, serving

CPU = torch.device("cpu")
MODES = ("sync", "async", "half_async", "geo")
SGD = OptimizerOptions(name="sgd", lr=0.5)


def make_batch(ids, *, event_time=0):
    """Return one sample per id; odd ids are clicked."""
    ids_N = torch.tensor(ids)
    jagged = KeyedJagged(
        names=("a",),
        values_N=ids_N,
        offsets=torch.arange(len(ids) + 1),
        num_samples=len(ids),
    )
    return Batch(
        ids=jagged,
        dense={"click": (ids_N % 2).float()[:, None]},
        cursor=Cursor(),
        event_time=event_time,
    )


class Member:
    """One process of a group: its group, its model, and how far it is."""

    def __init__(self, group, model, built):
        self.group = group
        self.model = model
        self.stepper = built.stepper
        self.state = built.state
        self.progress = Progress()

    def train(self, batch, **options):
        self.progress = self.progress.after_batch(batch.cursor)
        return self.stepper.train(batch, progress=self.progress, **options)

    def end_pass(self, *, now=0, ends_day=True, **options):
        self.stepper.end_pass(self.progress.pass_index, now=now, ends_day=ends_day, **options)
        self.progress = self.progress.next_pass()


class Meeting:
    """Where the threads of a test that stand for ranks exchange contents, in rank order."""

    def __init__(self, size):
        self.size = size
        self._contents = [b""] * size
        self._barrier = threading.Barrier(size)

    def all_gather(self, rank, content):
        self._contents[rank] = content
        self._barrier.wait(60)
        found = list(self._contents)
        self._barrier.wait(60)
        return found


class ThreadRank(SoloGroup):
    """One of several ranks, each of which is a thread of the test; models are built for one."""

    def __init__(self, rank, meeting):
        super().__init__(CPU)
        self.rank = rank
        self.size = meeting.size
        self.is_chief = rank == 0
        self._meeting = meeting

    def all_gather(self, content, *, key, pass_index):
        del key, pass_index
        return self._meeting.all_gather(self.rank, content)

    def broadcast(self, content, *, key, pass_index):
        return self.all_gather(content, key=key, pass_index=pass_index)[0]


def thread_ranks(size=2):
    """Return the groups of ranks that are threads; see ``together``."""
    meeting = Meeting(size)
    return [ThreadRank(rank, meeting) for rank in range(size)]


def model_options(**given):
    return ModelOptions(**{"optimizer": SGD, "seed": 0, **given})


def make_model(**settings):
    torch.manual_seed(0)
    return Linear(**settings)


@contextlib.contextmanager
def solo(*, model=None, **options):
    """Give the member of a group of one process."""
    group = SoloGroup(CPU)
    model = model or make_model()
    yield Member(group, model, group.build(model, model_options(**options)))


@contextlib.contextmanager
def workers(
    directory, mode, *, num_workers=2, num_servers=2, push_steps=2, make=make_model, **options
):
    """Give the workers of servers that run in this process."""
    with contextlib.ExitStack() as stack:
        endpoints = stack.enter_context(
            serving(directory, num_servers=num_servers, num_workers=num_workers)
        )
        yield [
            stack.enter_context(
                worker(
                    endpoints,
                    mode,
                    index=index,
                    num_workers=num_workers,
                    push_steps=push_steps,
                    make=make,
                    **options,
                )
            )
            for index in range(num_workers)
        ]


@contextlib.contextmanager
def worker(
    endpoints,
    mode,
    *,
    index=0,
    num_workers=1,
    push_steps=2,
    make=make_model,
    communicator=None,
    **options,
):
    """Give one worker of servers; it hangs up at the end of the block."""
    cluster = ClusterOptions(
        num_workers=num_workers,
        strategy=mode,
        geo_push_steps=push_steps,
        communicator=communicator or CommunicatorOptions(),
    )
    group = worker_group(endpoints, cluster, index=index)
    model = make()
    try:
        yield Member(group, model, group.build(model, model_options(**options)))
    finally:
        group.close(finished=False)


def worker_group(endpoints, cluster, *, index=0):
    """Return the group of one worker, which has built no model yet."""
    return WorkerGroup(
        make_place(endpoints, index=index, num_workers=cluster.num_workers),
        cluster,
        device=CPU,
        client=ClientOptions(token=TOKEN, deadline_s=30, give_up_s=60),
    )


def together(calls, *, timeout_s=60):
    """Make several calls at the same time, as the processes of a group do; returns the results."""
    with ThreadPoolExecutor(max(1, len(calls))) as threads:
        waiting = [threads.submit(call) for call in calls]
        return [future.result(timeout=timeout_s) for future in waiting]
