import pytest

from fleetrec.core.place import Place


def test_a_place_without_arguments_is_one_process():
    place = Place()
    assert (place.role, place.rank, place.size, place.num_servers) == ("worker", 0, 1, 0)
    assert place.is_only_process


def test_the_size_is_that_of_the_role():
    endpoints = ("a:1", "b:1")
    assert Place(num_workers=3, server_endpoints=endpoints).size == 3
    assert Place(role="server", num_workers=3, server_endpoints=endpoints).size == 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rank": 1}, "worker 1 of 1 does not exist"),
        ({"role": "server", "rank": 2, "server_endpoints": ("a:1", "b:1")}, "server 2 of 2"),
        ({"role": "server"}, "server 0 of 0"),
        ({"server_endpoints": ("a:1",), "store": "b:1"}, "have no store"),
        ({"local_rank": -1}, "count from 0"),
    ],
)
def test_a_place_that_cannot_be_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Place(**fields)
