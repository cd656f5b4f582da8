"""What a launcher writes about a place is what the process reads."""

from hypothesis import given
from hypothesis import strategies as st

from fleetrec.core.launchers.own import place_environment
from fleetrec.core.launchers.precedence import place_of
from fleetrec.core.place import Place

HOSTS = st.from_regex(r"[a-z0-9][a-z0-9.-]{0,20}", fullmatch=True)
ENDPOINTS = st.builds("{}:{}".format, HOSTS, st.integers(1, 65535))


@st.composite
def places(draw):
    servers = draw(st.lists(ENDPOINTS, max_size=4, unique=True))
    role = draw(st.sampled_from(["worker", "server"])) if servers else "worker"
    num_workers = draw(st.integers(1, 100))
    size = num_workers if role == "worker" else len(servers)
    return Place(
        role=role,
        rank=draw(st.integers(0, size - 1)),
        num_workers=num_workers,
        local_rank=draw(st.integers(0, 7)),
        server_endpoints=tuple(servers),
        store=None if servers else draw(st.none() | ENDPOINTS),
        is_store_host=draw(st.booleans()),
        incarnation=draw(st.integers(0, 9)),
        is_supervised=draw(st.booleans()),
        launcher=draw(st.sampled_from(["fleetrec", "Slurm", "TF_CONFIG"])),
    )


@given(places())
def test_reading_what_was_written_gives_the_same_place(place):
    assert place_of(place_environment(place)) == place
