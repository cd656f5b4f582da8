"""At which address the other nodes reach this one."""

import pytest

from fleetrec.core.errors import ConfigError
from fleetrec.launch.node_address import (
    address_of_interface,
    address_on_route,
    interface_of_address,
    main,
    read_addresses,
)


def test_an_interface_has_an_address():
    assert address_of_interface("lo") == "127.0.0.1"
    assert interface_of_address("127.0.0.1") == "lo"
    assert interface_of_address("192.0.2.1") is None


def test_a_wrong_interface_is_refused_with_those_that_exist():
    with pytest.raises(ConfigError, match=r"interface eth77: this machine has .*lo"):
        address_of_interface("eth77")


def test_a_single_host_is_on_loopback():
    assert address_on_route(["localhost"]) == "127.0.0.1"
    assert address_on_route([]) == "127.0.0.1"


def test_hosts_that_cannot_be_reached_are_named():
    with pytest.raises(ConfigError, match=r"no route to any of localhost, 127\.0\.1\.1; name"):
        address_on_route(["localhost", "127.0.1.1"])


def test_addresses_are_found_among_other_output():
    text = "Welcome!\r\nfleetrec-node 1 10.0.0.2\r\nfleetrec-node 0 10.0.0.1\r\nbye\n"
    assert read_addresses(text, num_tasks=2) == ["10.0.0.1", "10.0.0.2"]


def test_missing_addresses_are_named():
    with pytest.raises(ConfigError, match="no address of task 1, 2; 1 of 3 have one"):
        read_addresses("fleetrec-node 0 10.0.0.1\n", num_tasks=3)


@pytest.mark.parametrize(
    ("variable", "first", "task"), [("OMPI_COMM_WORLD_RANK", 0, 3), ("SLURM_PROCID", 2, 5)]
)
def test_a_node_prints_its_task_and_address(monkeypatch, capsys, variable, first, task):
    monkeypatch.setenv(variable, "3")
    words = ["node_address", "--interface", "lo", "--first-task", str(first)]
    monkeypatch.setattr("sys.argv", words)
    assert main() == 0
    assert capsys.readouterr().out == f"fleetrec-node {task} 127.0.0.1\n"


def test_a_node_that_mpirun_or_srun_has_not_started_says_so(monkeypatch, capsys):
    monkeypatch.delenv("SLURM_PROCID", raising=False)
    monkeypatch.delenv("OMPI_COMM_WORLD_RANK", raising=False)
    monkeypatch.setattr("sys.argv", ["node_address"])
    assert main() == 2
    assert "start this by mpirun or srun" in capsys.readouterr().err
