import pytest

from fleetrec.planning.memory import PROGRAM_BYTES, advice, rank_memory
from making_plans import make_table, make_workload

MB = 1_000_000
LARGE = make_table(num_rows=10 * MB)  # 960 MB


def test_a_row_takes_its_numbers_and_a_header():
    assert make_table().num_bytes == 1024 * (48 + 4 * (4 + 8))


def test_the_rank_that_holds_most_buckets_counts():
    assert rank_memory(make_workload(make_table()), 2).tables == {"item": 512 * 96}
    assert rank_memory(make_workload(make_table()), 3).tables == {"item": 342 * 96}
    assert rank_memory(make_workload(make_table()), 1024).tables == {"item": 96}


def test_a_replicated_table_is_whole_on_every_rank():
    workload = make_workload(make_table(is_replicated=True))
    assert rank_memory(workload, 8).tables == {"item": 1024 * 96}


def test_everything_a_rank_holds_is_added_up():
    memory = rank_memory(make_workload(make_table()), 1)
    assert memory.total == 1024 * 96 + 16000 + 5000 + PROGRAM_BYTES


def test_what_fits_needs_no_advice():
    assert advice(make_workload(LARGE), num_ranks=1, limit_bytes=2000 * MB) is None


def test_more_ranks_are_advised_where_they_help():
    limit = PROGRAM_BYTES + 21_000 + 960 * MB // 4
    assert advice(make_workload(LARGE), num_ranks=2, limit_bytes=limit) == "4 ranks fit"


def test_sharding_is_advised_where_it_helps():
    replicated = make_table(num_rows=10 * MB, is_replicated=True)
    found = advice(make_workload(replicated), num_ranks=4, limit_bytes=1000 * MB)
    assert found == "placement sharded needs 777 MB"


def test_sharding_on_more_ranks_is_advised_where_both_are_needed():
    replicated = make_table(num_rows=10 * MB, is_replicated=True)
    limit = PROGRAM_BYTES + 21_000 + 960 * MB // 8
    found = advice(make_workload(replicated), num_ranks=4, limit_bytes=limit)
    assert found == "placement sharded on 8 ranks fits"


@pytest.mark.parametrize("is_replicated", [True, False])
def test_where_no_number_of_ranks_helps_the_largest_table_is_named(is_replicated):
    tables = (make_table(), make_table(name="user", num_rows=2000, is_replicated=is_replicated))
    found = advice(make_workload(*tables), num_ranks=4, limit_bytes=PROGRAM_BYTES)
    assert found.startswith("no number of ranks fits; make table 'user' smaller")


def test_without_tables_the_batch_is_to_blame():
    found = advice(make_workload(), num_ranks=4, limit_bytes=PROGRAM_BYTES)
    assert found == "a smaller batch_size or network is needed"
