"""Ports that the system gives to no other process."""

import socket

import pytest

from fleetrec.core.errors import ConfigError
from fleetrec.launch.ports import reserved_endpoints


def port_of(endpoint):
    return int(endpoint.rpartition(":")[2])


def test_free_ports_are_different_and_other_machines_keep_theirs():
    given = ("127.0.0.1:0", "10.0.0.1:7000", "127.0.0.1:0")
    with reserved_endpoints(given, own=(0, 2)) as endpoints:
        assert endpoints[1] == "10.0.0.1:7000"
        assert len(set(endpoints)) == 3
        assert 0 not in map(port_of, endpoints)


def test_a_server_can_listen_on_a_reserved_port_and_be_reached():
    with reserved_endpoints(["127.0.0.1:0"], own=(0,)) as (endpoint,):
        for _ in range(2):  # the second is the server after a restart
            with (
                socket.create_server(("127.0.0.1", port_of(endpoint))) as server,
                socket.create_connection(("127.0.0.1", port_of(endpoint)), timeout=5),
            ):
                server.accept()[0].close()


def test_a_reserved_port_is_given_to_nobody_who_asks_for_any():
    with reserved_endpoints(["127.0.0.1:0"] * 50, own=range(50)) as endpoints:
        taken = set(map(port_of, endpoints))
        others = [socket.socket() for _ in range(400)]
        try:
            for other in others:
                other.bind(("127.0.0.1", 0))
            assert taken.isdisjoint(other.getsockname()[1] for other in others)
        finally:
            for other in others:
                other.close()


def test_a_port_in_use_is_refused_before_anything_starts():
    with socket.create_server(("127.0.0.1", 0)) as server:
        endpoint = f"127.0.0.1:{server.getsockname()[1]}"
        with (
            pytest.raises(ConfigError, match=f"{endpoint}: the port is in use; choose another"),
            reserved_endpoints([endpoint], own=(0,)),
        ):
            pass


def test_an_address_of_another_machine_is_refused():
    with (
        pytest.raises(ConfigError, match=r"192.0.2.1:7000: not an address of this machine"),
        reserved_endpoints(["192.0.2.1:7000"], own=(0,)),
    ):
        pass
