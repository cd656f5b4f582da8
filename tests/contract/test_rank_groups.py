"""Ranks keep the contracts of groups, steppers and states; two real processes run all checks."""

import json

import numpy as np
import pytest

from contract.rank_checks import ADAM, CLIPPED, TwoTables
from making_groups import make_batch, solo
from multiprocess.ranking import start_ranks

NUM_RANKS = 2

pytestmark = pytest.mark.multiprocess


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Return what every rank found, by check."""
    folder = tmp_path_factory.mktemp("ranks")
    start_ranks(["-m", "contract.rank_checks", str(folder)], count=NUM_RANKS, folder=folder)
    ranks = [json.loads((folder / f"rank.{n}.json").read_text()) for n in range(NUM_RANKS)]
    return {name: [rank[name] for rank in ranks] for name in ranks[0]}


def test_gathers_come_in_rank_order_and_broadcasts_from_the_chief(found):
    for rank in found["gathers"]:
        assert rank == {
            "all_gather": ["0", "1"],
            "broadcast": "0",
            "empty": "",
            "rule_group_size": 2,
        }


def test_rows_are_gathered_while_another_thread_saves(found):
    assert found["exporting_while_saving"] == [True] * NUM_RANKS


@pytest.mark.parametrize("check", ["evaluating", "saving", "prefetching"])
def test_evaluating_saving_and_prefetching_change_nothing(found, check):
    assert found[check][0] == found["plain"][0]


def test_all_ranks_evaluate_with_the_buffers_of_the_chief(found):
    assert found["chief_buffers"][0] == found["chief_buffers"][1]


def test_clipping_by_norm_is_that_of_one_process_with_all_samples(found):
    with solo(model=TwoTables(has_norm=False), optimizer=ADAM, update=CLIPPED) as one:
        for step in range(6):
            ids = [i for rank in range(NUM_RANKS) for i in (step + 7 * rank, step + 1, 5)]
            one.train(make_batch(ids))
        dense = [p.detach().reshape(-1).numpy() for p in one.model.out.parameters()]
    flat = [value for part in found["clipped"][0] for value in part]
    for values in dense:
        for value in values:
            assert np.min(np.abs(np.array(flat) - value)) < 1e-6


def test_ranks_without_data_make_blank_steps(found):
    assert found["uneven"] == [{"steps": 6, "blank": 0}, {"steps": 6, "blank": 3}]


def test_all_ranks_stop_after_the_same_step(found):
    assert found["stopping"][0] == found["stopping"][1]
    assert found["stopping"][0] in (2, 3)


def test_a_full_checkpoint_and_deltas_rebuild_the_live_tables(found):
    chief = found["deltas"][0]
    assert chief["kinds"] == [["base", "base"], ["delta", "delta"], ["delta", "delta"]]
    assert chief["found"]["fixed"][:2] == [True, True]
    assert chief["found"]["grows"][:2] == [True, True]
    assert chief["found"]["grows"][2] == 7  # three ids of two days each, and the one of all days


def test_statistics_add_up_over_the_ranks(found):
    first, second = found["stats"]
    assert first == second
    assert first == {"grows": 6}


def test_a_failed_save_of_the_chief_ends_its_peers_with_its_reason(found):
    assert found["failed_save"] == [False, "the disk is full"]


def test_a_refusal_of_the_chief_ends_all_ranks_alike(found):
    assert found["refusal"] == ["the folder is used"] * 2
