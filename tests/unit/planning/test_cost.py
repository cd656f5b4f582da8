import dataclasses

import pytest

from fleetrec.planning.cost import Network, Speeds, scaling, step_time
from fleetrec.planning.traffic import step_traffic
from making_plans import make_table, make_workload

SPEEDS = Speeds(
    read_per_sample=1e-4,
    scan_per_sample=0.0,
    lookup_per_id=1e-6,
    row=1e-5,
    compute_per_batch=0.01,
)
SLOW = Network(bytes_per_s=1e6, latency_s=0.001)
FREE = Network(bytes_per_s=1e15, latency_s=0.0)


def test_one_rank_only_works():
    step = step_time(make_workload(make_table()), SPEEDS, SLOW, 1)
    assert step.read == pytest.approx(50 * 1e-4)
    assert step.lookup == pytest.approx(200 * 1e-6)
    assert step.compute == 0.01
    assert (step.exchange, step.all_reduce) == (0, 0)
    assert step.total == pytest.approx(0.0152)
    assert step.bottleneck == "compute"


def test_an_exchange_is_its_bytes_and_a_wait_for_every_round():
    workload = make_workload(make_table())
    step = step_time(workload, SPEEDS, SLOW, 4)
    assert step.exchange == pytest.approx(5 * 0.001 + step_traffic(workload, 4).exchange / 1e6)
    both = make_workload(make_table(), make_table(name="user", is_replicated=True))
    step = step_time(both, SPEEDS, SLOW, 4)
    assert step.exchange == pytest.approx(5 * 0.001 + step_traffic(both, 4).exchange / 1e6)
    replicated = make_workload(make_table(is_replicated=True))
    step = step_time(replicated, SPEEDS, SLOW, 4)
    assert step.exchange == pytest.approx(4 * 0.001 + step_traffic(replicated, 4).exchange / 1e6)


def test_a_ring_waits_for_every_neighbour():
    step = step_time(make_workload(), SPEEDS, SLOW, 4)
    assert step.all_reduce == pytest.approx(6 * 0.001 + 6000 / 1e6)
    assert step_time(make_workload(num_parameters=0), SPEEDS, SLOW, 4).all_reduce == 0


def test_a_scan_for_all_ranks_is_waited_for_once_it_takes_longer_than_the_step():
    speeds = dataclasses.replace(SPEEDS, scan_per_sample=1e-5)
    workload = make_workload()
    assert step_time(workload, speeds, FREE, 16).read == pytest.approx(0.005)
    assert step_time(workload, speeds, FREE, 64).total == pytest.approx(64 * 50 * 1e-5)
    assert step_time(workload, speeds, FREE, 64).bottleneck == "read"


def test_rows_are_moved_for_other_ranks():
    sharded = step_time(make_workload(make_table()), SPEEDS, FREE, 4)
    assert sharded.lookup == pytest.approx(200e-6 + 75 * 1e-5)
    replicated = step_time(make_workload(make_table(is_replicated=True)), SPEEDS, FREE, 4)
    assert replicated.lookup == pytest.approx(200e-6 + 300 * 1e-5)


def test_ranks_without_tables_on_a_free_network_scale_perfectly():
    scales = scaling(make_workload(), SPEEDS, FREE, [1, 2, 64])
    assert [scale.efficiency for scale in scales] == pytest.approx([1, 1, 1])
    assert scales[2].samples_per_s == pytest.approx(64 * 50 / 0.015)


def test_efficiency_falls_with_ranks_and_replication_falls_faster():
    counts = [1, 2, 4, 8, 16, 32, 64, 128, 256]
    sharded = scaling(make_workload(make_table()), SPEEDS, SLOW, counts)
    replicated = scaling(make_workload(make_table(is_replicated=True)), SPEEDS, SLOW, counts)
    of_sharded = [scale.efficiency for scale in sharded]
    assert of_sharded == sorted(of_sharded, reverse=True)
    assert of_sharded[0] == 1
    assert replicated[-1].efficiency < of_sharded[-1] / 2
    assert sharded[-1].step.bottleneck == "all_reduce"
    assert replicated[-1].step.bottleneck == "exchange"
