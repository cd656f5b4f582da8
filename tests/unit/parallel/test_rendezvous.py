"""Ranks that are started together find each other, whoever was there before."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.distributed import TCPStore

from fleetrec.core.errors import LostRankError
from fleetrec.core.place import Place
from fleetrec.parallel.rank_comm import RankComm
from fleetrec.parallel.rendezvous import rendezvous

COUNT = 3


@pytest.fixture
def port():
    server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    yield server.port
    del server


def answer(port, index, *, count=COUNT, timeout_s=30.0):
    """Be one rank; returns what it reads in the store of its group, and the group's number."""
    store = TCPStore("127.0.0.1", port, is_master=False)
    own, number = rendezvous(store, index=index, count=count, timeout_s=timeout_s)
    return own.add("arrived", 1), number


def call(port, indexes):
    with ThreadPoolExecutor(COUNT) as pool:
        return [future.result() for future in [pool.submit(answer, port, i) for i in indexes]]


@pytest.mark.parametrize("indexes", [(0, 1, 2), (2, 1, 0)])
def test_every_group_has_a_store_and_a_number_of_its_own(port, indexes):
    for group in range(4):
        found = call(port, indexes)
        assert sorted(arrived for arrived, _ in found) == [1, 2, 3]
        assert {number for _, number in found} == {group}


def test_a_rank_that_does_not_come_is_named(port):
    with pytest.raises(LostRankError, match=r"rank 1, 2 of 3 did not start within 0\.2 s"):
        answer(port, 0, timeout_s=0.2)


def test_others_do_not_take_an_earlier_first_rank_for_their_own(port):
    call(port, (0, 1, 2))
    with pytest.raises(LostRankError, match="did not start"):
        answer(port, 1, timeout_s=0.2)


def test_a_store_that_nobody_opened_is_named():
    place = Place(rank=1, num_workers=2, store="127.0.0.1:1")
    with pytest.raises(LostRankError, match=r"rank 1 of 2 cannot reach .* 127\.0\.0\.1:1: "):
        RankComm(place, device=torch.device("cpu"), timeout_s=0.5)


def test_a_store_cannot_be_opened_twice(port):
    place = Place(rank=0, num_workers=2, store=f"127.0.0.1:{port}", is_store_host=True)
    with pytest.raises(LostRankError, match=f"rank 0 of 2 cannot open .* 127.0.0.1:{port}: "):
        RankComm(place, device=torch.device("cpu"), timeout_s=0.5)
