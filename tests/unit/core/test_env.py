"""The environment contract of Paddle's launchers, read into a topology."""

import pytest

from fleetrec.core.env import (
    allows_tiles,
    read_certificate,
    read_rank,
    read_snapshot_bytes,
    topology_of,
)
from fleetrec.core.errors import ConfigError
from fleetrec.core.topology import Topology

SERVERS = "10.0.0.1:6170,10.0.0.2:6171"
WORKER = {
    "TRAINING_ROLE": "TRAINER",
    "PADDLE_PSERVERS_IP_PORT_LIST": SERVERS,
    "PADDLE_TRAINERS_NUM": "3",
    "PADDLE_TRAINER_ID": "2",
}
SERVER = {
    "TRAINING_ROLE": "PSERVER",
    "PADDLE_PSERVERS_IP_PORT_LIST": SERVERS,
    "PADDLE_TRAINERS_NUM": "3",
    "POD_IP": "10.0.0.2",
    "PADDLE_PORT": "6171",
}


def test_a_worker_is_told_its_number():
    assert topology_of(WORKER) == Topology(
        role="worker",
        index=2,
        num_workers=3,
        num_servers=2,
        server_endpoints=("10.0.0.1:6170", "10.0.0.2:6171"),
    )


def test_a_server_finds_itself_among_the_endpoints():
    topology = topology_of(SERVER)
    assert (topology.role, topology.index, topology.num_servers) == ("server", 1, 2)


@pytest.mark.parametrize("missing", WORKER)
def test_a_missing_variable_of_a_worker_is_named(missing):
    given = {name: value for name, value in WORKER.items() if name != missing}
    with pytest.raises(ConfigError, match=f"^{missing}: not in the environment; start it with"):
        topology_of(given)


@pytest.mark.parametrize("missing", SERVER)
def test_a_missing_variable_of_a_server_is_named(missing):
    with pytest.raises(ConfigError, match=f"^{missing}: not in the environment"):
        topology_of({**SERVER, missing: " "})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("TRAINING_ROLE", "HETER_TRAINER", "TRAINING_ROLE: expected TRAINER or PSERVER, got 'HET"),
        ("PADDLE_TRAINERS_NUM", "0", "PADDLE_TRAINERS_NUM: expected a whole number of at least 1"),
        ("PADDLE_TRAINERS_NUM", "two", "got 'two' in the environment"),
        ("PADDLE_TRAINER_ID", "3", "PADDLE_TRAINER_ID: expected a number below .*=3, got '3'"),
        ("PADDLE_TRAINER_ID", "-1", "PADDLE_TRAINER_ID: expected a whole number of at least 0"),
        ("PADDLE_PSERVERS_IP_PORT_LIST", "10.0.0.1", "expected host:port, separated by commas"),
        ("PADDLE_PSERVERS_IP_PORT_LIST", "a:1,a:99999", "expected host:port"),
        ("PADDLE_PSERVERS_IP_PORT_LIST", "a:1,a:1", "expected every host:port once"),
    ],
)
def test_a_wrong_value_is_named_with_what_came(name, value, message):
    with pytest.raises(ConfigError, match=message):
        topology_of({**WORKER, name: value})


def test_a_server_that_is_not_among_the_endpoints_is_told_so():
    with pytest.raises(ConfigError, match=r"POD_IP and PADDLE_PORT: 10.0.0.2:6170 is not in"):
        topology_of({**SERVER, "PADDLE_PORT": "6170"})


def test_a_certificate_needs_its_key(monkeypatch, tmp_path):
    monkeypatch.setenv("FLEETREC_TLS_CERTIFICATE", str(tmp_path / "certificate.pem"))
    with pytest.raises(ConfigError, match="FLEETREC_TLS_KEY: expected both in the environment"):
        read_certificate()
    monkeypatch.setenv("FLEETREC_TLS_KEY", str(tmp_path / "key.pem"))
    assert read_certificate() == (tmp_path / "certificate.pem", tmp_path / "key.pem")


def test_a_topology_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match="server 2 of 2 does not exist"):
        Topology(role="server", index=2, num_workers=1, num_servers=2, server_endpoints=("a", "b"))


def test_the_length_of_a_journal_is_told_or_not(monkeypatch):
    assert read_snapshot_bytes() is None
    monkeypatch.setenv("FLEETREC_SNAPSHOT_BYTES", "4096")
    assert read_snapshot_bytes() == 4096
    monkeypatch.setenv("FLEETREC_SNAPSHOT_BYTES", "much")
    with pytest.raises(ConfigError, match="FLEETREC_SNAPSHOT_BYTES: expected a whole number"):
        read_snapshot_bytes()


def test_tiles_are_allowed_unless_the_environment_forbids_them(monkeypatch):
    assert allows_tiles()
    monkeypatch.setenv("FLEETREC_TILES", "0")
    assert not allows_tiles()
    monkeypatch.setenv("FLEETREC_TILES", "off")
    with pytest.raises(ConfigError, match="FLEETREC_TILES: expected 0 or 1, got 'off'"):
        allows_tiles()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"RANK": "2"}, "RANK: expected a number below WORLD_SIZE=2"),
        ({"LOCAL_RANK": "first"}, "LOCAL_RANK: expected a whole number of at least 0"),
        ({"MASTER_PORT": "http"}, "MASTER_PORT: expected a whole number of at least 1"),
        ({"MASTER_ADDR": ""}, "MASTER_ADDR: not in the environment; start ranks with torchrun"),
    ],
)
def test_what_torchrun_tells_is_checked(monkeypatch, wrong, said):
    told = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
    for name, value in {**told, **wrong}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=said):
        read_rank()
