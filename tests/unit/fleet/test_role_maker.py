"""Who a process is, and what it may ask."""

import pytest

from fleetrec.core.errors import ConfigError, UnavailableError
from fleetrec.fleet import PaddleCloudRoleMaker, Role, UserDefinedRoleMaker
from fleetrec.fleet.fleet import Fleet

SERVERS = ["127.0.0.1:6170", "127.0.0.1:6171"]


def make_fleet(role=Role.WORKER, current_id=0, worker_num=3):
    fleet = Fleet()
    fleet.init(
        UserDefinedRoleMaker(
            current_id=current_id, role=role, worker_num=worker_num, server_endpoints=SERVERS
        )
    )
    return fleet


def test_a_worker_knows_itself_and_the_others():
    fleet = make_fleet(current_id=2)
    assert (fleet.is_worker(), fleet.is_server(), fleet.is_first_worker()) == (True, False, False)
    assert (fleet.worker_index(), fleet.worker_num(), fleet.server_num()) == (2, 3, 2)
    assert fleet.server_endpoints() == SERVERS
    assert fleet.server_endpoints(to_string=True) == "127.0.0.1:6170,127.0.0.1:6171"
    with pytest.raises(RuntimeError, match="this is for a server; this process is a worker"):
        fleet.server_index()


def test_a_server_knows_itself():
    fleet = make_fleet(Role.SERVER, current_id=1)
    assert (fleet.is_server(), fleet.is_first_worker(), fleet.server_index()) == (True, False, 1)
    with pytest.raises(UnavailableError, match="a server reads no files"):
        fleet.util.get_file_shard(["a"])
    with pytest.raises(RuntimeError, match="this process is a server"):
        fleet.init_worker()


def test_without_a_role_maker_the_environment_tells(monkeypatch):
    for name, value in {
        "TRAINING_ROLE": "TRAINER",
        "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(SERVERS),
        "PADDLE_TRAINERS_NUM": "2",
        "PADDLE_TRAINER_ID": "1",
        "PADDLE_TRAINER_ENDPOINTS": "10.0.0.1:1,10.0.0.2:1",
    }.items():
        monkeypatch.setenv(name, value)
    fleet = Fleet()
    fleet.init()
    assert (fleet.worker_index(), fleet.worker_num()) == (1, 2)
    assert fleet.worker_endpoints() == ["10.0.0.1:1", "10.0.0.2:1"]


def test_an_environment_without_a_launcher_is_named(monkeypatch):
    monkeypatch.delenv("TRAINING_ROLE", raising=False)
    with pytest.raises(ConfigError, match="TRAINING_ROLE: not in the environment; start it with"):
        Fleet().init(PaddleCloudRoleMaker())


def test_what_needs_init_says_so():
    with pytest.raises(RuntimeError, match=r"call fleet.init\(\) first"):
        Fleet().is_worker()


def test_collective_jobs_are_refused():
    with pytest.raises(UnavailableError, match="is_collective is not available"):
        Fleet().init(is_collective=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give worker_num or worker_endpoints"),
        ({"worker_num": 2, "worker_endpoints": ["a:1"]}, "worker_num is 2, but there are 1"),
        ({"worker_num": 1, "current_id": 1}, "worker 1 of 1 does not exist"),
    ],
)
def test_a_role_that_cannot_be_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        UserDefinedRoleMaker(
            **{"current_id": 0, "role": Role.WORKER, "server_endpoints": SERVERS, **given}
        )


def test_files_are_shared_out_in_blocks():
    files = list("abcdefgh")
    shares = [make_fleet(current_id=i).util.get_file_shard(files) for i in range(3)]
    assert shares == [["a", "b", "c"], ["d", "e", "f"], ["g", "h"]]
    assert make_fleet(current_id=2).util.get_file_shard(["a"]) == []


def test_one_worker_prints(capsys):
    for index in range(3):
        make_fleet(current_id=index).util.print_on_rank(f"I am {index}", 1)
    assert capsys.readouterr().out == "I am 1\n"
