"""All-gathers that are kept by a server."""

from fleetrec.server.gathers import Gathers


def make_gathers():
    gathers = Gathers(num_workers=2)
    gathers.add(1, "metrics", 1, b"second")
    return gathers


def test_a_gather_is_complete_when_all_workers_have_contributed():
    gathers = make_gathers()
    assert gathers.missing(1, "metrics") == [0]
    gathers.add(1, "metrics", 0, b"first")
    assert gathers.missing(1, "metrics") == []
    assert gathers.result(1, "metrics") == [b"first", b"second"]


def test_the_first_contribution_of_a_worker_counts():
    gathers = make_gathers()
    gathers.add(1, "metrics", 1, b"other")
    assert gathers.contribution(1, "metrics", 1) == b"second"


def test_gathers_of_another_name_or_number_are_separate():
    gathers = make_gathers()
    assert gathers.has(1, "metrics", 1)
    assert not gathers.has(1, "stop", 1)
    assert not gathers.has(2, "metrics", 1)
    assert gathers.contribution(2, "metrics", 1) == b""


def test_old_numbers_are_dropped_except_number_0():
    gathers = make_gathers()
    gathers.add(0, "start", 0, b"begin")
    gathers.add(2, "metrics", 0, b"x")
    assert gathers.has(1, "metrics", 1)  # a restarted worker may repeat the previous pass
    gathers.add(3, "metrics", 0, b"x")
    assert not gathers.has(1, "metrics", 1)
    assert gathers.has(0, "start", 0)


def test_a_loaded_state_equals_the_saved_one():
    loaded = Gathers(num_workers=2)
    loaded.load(make_gathers().to_plain())
    assert loaded.contribution(1, "metrics", 1) == b"second"
    assert loaded.missing(1, "metrics") == [0]
