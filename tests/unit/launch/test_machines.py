"""Who runs what: every machine computes the same picture."""

import pytest

from fleetrec.core.errors import ConfigError
from fleetrec.launch.machines import place

TWO = ("127.0.0.1", "127.0.0.2")


def test_one_machine_runs_everything_on_free_ports():
    machines = place(worker_num=3, server_num=2)
    assert machines.endpoints == ("127.0.0.1:0", "127.0.0.1:0")
    assert machines.part.servers == (0, 1)
    assert machines.part.workers == (0, 1, 2)
    assert machines.part.is_whole


def test_a_first_port_is_counted_from():
    machines = place(worker_num=1, server_num=3, start_port=7000)
    assert machines.endpoints == ("127.0.0.1:7000", "127.0.0.1:7001", "127.0.0.1:7002")


@pytest.mark.parametrize(("worker_num", "server_num"), [(1, 1), (2, 2), (5, 3), (4, 1)])
def test_the_parts_of_all_machines_are_each_process_once(worker_num, server_num):
    found = [
        place(worker_num=worker_num, server_num=server_num, node_ip=ip, node_ips=TWO) for ip in TWO
    ]
    assert len({machines.endpoints for machines in found}) == 1
    workers = [index for machines in found for index in machines.part.workers]
    servers = [index for machines in found for index in machines.part.servers]
    assert workers == list(range(worker_num))
    assert servers == list(range(server_num))
    assert not any(machines.part.is_whole for machines in found)


def test_several_machines_agree_on_ports():
    machines = place(worker_num=2, server_num=3, node_ip=TWO[1], node_ips=TWO)
    assert machines.endpoints == ("127.0.0.1:6170", "127.0.0.1:6171", "127.0.0.2:6170")
    assert machines.part.servers == (2,)


def test_endpoints_say_where_servers_are():
    endpoints = ("127.0.0.2:9000", "127.0.0.1:9001")
    machines = place(worker_num=2, server_num=1, endpoints=endpoints, node_ips=TWO)
    assert machines.endpoints == endpoints
    assert machines.part.servers == (1,)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"node_ip": "10.0.0.9", "node_ips": TWO}, "--node_ip 10.0.0.9: not among"),
        ({"node_ips": ("127.0.0.1", "127.0.0.1")}, "given twice"),
        ({"endpoints": ("127.0.0.1",)}, "--endpoints: expected ip:port, got '127.0.0.1'"),
        ({"endpoints": ("10.0.0.9:1",)}, "--endpoints: 10.0.0.9 is not among"),
        ({"endpoints": ("127.0.0.1:1", "127.0.0.1:1")}, "one is given twice"),
    ],
)
def test_what_cannot_be_is_refused(given, message):
    with pytest.raises(ConfigError, match=message):
        place(worker_num=1, server_num=1, **given)
