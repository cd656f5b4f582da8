"""Workers that exchange differences: nothing is lost, and nothing is left at the end."""

import contextlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from fleetrec.parallel.cluster import Cluster

from fleetrec.config.job import OptimizerOptions
from fleetrec.core.batch import Batch
from fleetrec.core.cursor import Cursor
from fleetrec.core.errors import ConfigError
from fleetrec.core.jagged import KeyedJagged
from fleetrec.embedding.table import Admission, RowOptimizer, TableOptimizer
from fleetrec.parallel.geo import GeoStrategy
from fleetrec.server.client import ClientOptions
from unit.parallel.linear import Linear
from unit.server.serving import TOKEN, make_topology, serving


def make_batch(ids):
    ids_N = torch.tensor(ids)
    jagged = KeyedJagged(
        names=("a",),
        values_N=ids_N,
        offsets=torch.arange(len(ids) + 1),
        num_samples=len(ids),
    )
    return Batch(ids=jagged, dense={"click": (ids_N % 2).float()[:, None]}, cursor=Cursor())


@contextlib.contextmanager
def two_workers(directory, *, push_steps, own_optimizer=None):
    with contextlib.ExitStack() as stack:
        endpoints = stack.enter_context(serving(directory, num_servers=2, num_workers=2))
        workers = []
        for index in range(2):
            torch.manual_seed(0)
            strategy = GeoStrategy(
                Linear(own_optimizer=own_optimizer),
                optimizer=OptimizerOptions(name="sgd", lr=0.5),
                device=torch.device("cpu"),
                seed=0,
                cluster=Cluster(
                    place=make_topology(endpoints, index=index, num_workers=2),
                    mode="geo",
                    client=ClientOptions(token=TOKEN),
                    geo_push_steps=push_steps,
                ),
            )
            stack.callback(strategy.close)
            workers.append(strategy)
        yield workers


def end_pass(workers):
    with ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(worker.end_pass, epoch=0) for worker in workers]
        for future in waiting:
            future.result(timeout=60)


@pytest.mark.parametrize("own", [None, TableOptimizer(rule=RowOptimizer(name="adagrad"), lr=0.1)])
@pytest.mark.parametrize("push_steps", [1, 3])
def test_at_the_end_of_a_pass_servers_have_what_each_worker_learnt(tmp_path, push_steps, own):
    with two_workers(tmp_path, push_steps=push_steps, own_optimizer=own) as workers:
        for step in range(7):
            for number, worker in enumerate(workers):  # no id is met by both
                worker.train_step(make_batch([10 * number + step % 3, 10 * number + 5]))
        end_pass(workers)
        held = workers[0].frozen_rows()["t"]
        rows = dict(zip(held["ids"].tolist(), held["rows"].tolist(), strict=True))
        assert len(rows) == 8
        for worker in workers:
            own = worker._own.stores["t"].table.snapshot()
            for one, row in zip(own["ids"].tolist(), own["rows"], strict=True):
                np.testing.assert_allclose(row, rows[one], atol=1e-6)
            old, _ = worker._old["t"].table.read(own["ids"], as_new=True)
            np.testing.assert_allclose(old, own["rows"], atol=1e-7)  # nothing is kept back


def test_servers_add_up_what_all_workers_learnt(tmp_path):
    """They make one step each from the same weights, so progress is the sum of both."""
    found = {}
    for active in ((0,), (1,), (0, 1)):
        with two_workers(tmp_path / "-".join(map(str, active)), push_steps=2) as workers:
            first = workers[0].state()["model"]["out.weight"].clone()
            for number in active:
                workers[number].train_step(make_batch([number, number + 7]))
            end_pass(workers)
            found[active] = workers[0].state()["model"]["out.weight"] - first
    assert found[0, 1].abs().sum() > 0
    torch.testing.assert_close(found[0, 1], found[(0,)] + found[(1,)], atol=1e-6, rtol=0)


def test_tables_that_choose_their_ids_are_refused():
    with pytest.raises(ConfigError, match="use async"):
        GeoStrategy(
            Linear(admission=Admission(kind="count", threshold=2)),
            optimizer=OptimizerOptions(),
            device=torch.device("cpu"),
            seed=0,
            cluster=Cluster(place=make_topology(["127.0.0.1:1"]), mode="geo"),
        )
