"""The group that a process joins."""

import pytest

from fleetrec.config.job import ClusterOptions, CommunicatorOptions, RunOptions
from fleetrec.core.env import AUTHORITY, TOKEN
from fleetrec.core.place import Place
from fleetrec.parallel.join import client_options, join_group
from fleetrec.parallel.solo import SoloGroup
from fleetrec.parallel.worker_group import WorkerGroup

RUN = RunOptions(name="train", kind="train", phases=(), cluster=ClusterOptions(num_workers=2))


@pytest.mark.parametrize("place", [None, Place(), Place(store="127.0.0.1:1")])
def test_a_process_that_is_the_only_one_needs_no_other(place):
    group = join_group(RUN, place)
    assert isinstance(group, SoloGroup)
    assert (group.rank, group.size) == (0, 1)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_worker_of_servers_joins_without_a_connection(rank):
    place = Place(rank=rank, num_workers=2, server_endpoints=("127.0.0.1:1",))
    group = join_group(RUN, place)
    assert isinstance(group, WorkerGroup)
    assert (group.rank, group.size, group.is_chief) == (rank, 2, rank == 0)
    assert (group.rule_group is None) == (rank == 1)
    group.close(finished=False)


def test_one_worker_of_servers_is_not_on_its_own():
    place = Place(server_endpoints=("127.0.0.1:1",))
    assert isinstance(join_group(RUN, place), WorkerGroup)


def test_timeouts_come_from_the_job_and_secrets_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv(TOKEN, "secret")
    monkeypatch.setenv(AUTHORITY, str(tmp_path))
    communicator = CommunicatorOptions(rpc_deadline_s=7, thread_pool_size=3)
    found = client_options(ClusterOptions(communicator=communicator))
    assert (found.token, found.authority) == ("secret", tmp_path)
    assert (found.deadline_s, found.num_threads) == (7, 3)
