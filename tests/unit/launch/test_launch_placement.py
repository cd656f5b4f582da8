"""Who runs what: every machine computes the same picture."""

import pytest

from fleetrec.core.errors import ConfigError
from fleetrec.launch.placement import assign_replicas

TWO = ("127.0.0.1", "127.0.0.2")


def test_one_machine_runs_everything_on_free_ports():
    placement = assign_replicas(num_workers=3, num_servers=2)
    assert placement.endpoints == ("127.0.0.1:0", "127.0.0.1:0")
    assert placement.local.servers == (0, 1)
    assert placement.local.workers == (0, 1, 2)
    assert placement.local.is_only_machine


def test_a_first_port_is_counted_from():
    placement = assign_replicas(num_workers=1, num_servers=3, start_port=7000)
    assert placement.endpoints == ("127.0.0.1:7000", "127.0.0.1:7001", "127.0.0.1:7002")


@pytest.mark.parametrize(("num_workers", "num_servers"), [(1, 1), (2, 2), (5, 3), (4, 1)])
def test_the_parts_of_all_machines_are_each_process_once(num_workers, num_servers):
    found = [
        assign_replicas(num_workers=num_workers, num_servers=num_servers, node_ip=ip, node_ips=TWO)
        for ip in TWO
    ]
    assert len({placement.endpoints for placement in found}) == 1
    workers = [index for placement in found for index in placement.local.workers]
    servers = [index for placement in found for index in placement.local.servers]
    assert workers == list(range(num_workers))
    assert servers == list(range(num_servers))
    assert not any(placement.local.is_only_machine for placement in found)


def test_several_machines_agree_on_ports():
    placement = assign_replicas(num_workers=2, num_servers=3, node_ip=TWO[1], node_ips=TWO)
    assert placement.endpoints == ("127.0.0.1:6170", "127.0.0.1:6171", "127.0.0.2:6170")
    assert placement.local.servers == (2,)


def test_endpoints_say_where_servers_are():
    endpoints = ("127.0.0.2:9000", "127.0.0.1:9001")
    placement = assign_replicas(num_workers=2, num_servers=1, endpoints=endpoints, node_ips=TWO)
    assert placement.endpoints == endpoints
    assert placement.local.servers == (1,)


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
        assign_replicas(num_workers=1, num_servers=1, **given)
