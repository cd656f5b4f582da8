import numpy as np
import pytest

from fleetrec.core.partition import contiguous_block
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.table import RowOptimizer, TableConfig
from fleetrec.planning.traffic import step_traffic
from making_plans import make_table, make_workload

NUM_BUCKETS = 1024


def sent(num_ranks, **table):
    return step_traffic(make_workload(make_table(**table)), num_ranks)


def test_one_rank_sends_nothing():
    assert sent(1).total == 0
    assert sent(1, is_replicated=True).total == 0


def test_a_sharded_table_sends_ids_rows_and_gradients_of_what_others_hold():
    of_an_id = (8 + 4 + 4) + (16 + 1) + (16 + 1)
    assert sent(4).tables == {"item": 75 * of_an_id + 3 * 8}


def test_a_replicated_table_sends_ids_and_gradients_to_everybody():
    of_an_id = (8 + 4 + 4) + (16 + 1)
    assert sent(4, is_replicated=True).tables == {"item": 3 * 100 * of_an_id + 3 * 8}


def test_a_ring_sends_the_gradient_twice_but_for_one_part():
    traffic = sent(4)
    assert traffic.all_reduce == 2 * 3 / 4 * 4000
    assert traffic.agreement == 2 * 3 / 4 * 16
    assert traffic.total == traffic.exchange + traffic.all_reduce


def test_sharding_sends_less_than_replicating_on_many_ranks():
    assert sent(8, is_replicated=True).exchange > 4 * sent(8).exchange


@pytest.mark.parametrize("num_ranks", [2, 3, 8])
def test_bytes_are_those_of_an_exchange_that_is_played_out(num_ranks):
    """Every rank asks the owners of the buckets of its ids; all that is sent is counted."""
    dim, num_ids = 16, 2000
    store = NativeStore(TableConfig(name="item", dim=dim), RowOptimizer(), seed=0)
    owner_of = np.concatenate(
        [
            np.full(len(contiguous_block(NUM_BUCKETS, rank, num_ranks)), rank)
            for rank in range(num_ranks)
        ]
    )
    rng = np.random.default_rng(0)
    bytes_of = np.zeros(num_ranks)
    for rank in range(num_ranks):
        ids = np.unique(rng.integers(0, 1 << 40, num_ids))
        owners = owner_of[store.table.buckets_of(ids)]
        for other in set(range(num_ranks)) - {rank}:
            asked = int((owners == other).sum())
            bytes_of[rank] += 8 + asked * (8 + 4 + 4)  # how many, which, shows and clicks
            bytes_of[other] += asked * (4 * dim + 1)  # rows, and whether they are there
            bytes_of[rank] += asked * (4 * dim + 1)  # gradients, and whether they count
    table = make_table(dim=dim, different_ids_per_batch=float(num_ids))
    planned = step_traffic(make_workload(table), num_ranks).tables["item"]
    assert bytes_of.mean() == pytest.approx(planned, rel=0.02)
