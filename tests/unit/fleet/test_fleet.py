"""A worker of a Fleet program that is restarted within a pass."""

import pytest

from fleetrec.core.errors import ConfigError
from fleetrec.fleet import Adam, StrategyFactory
from fleetrec.fleet.fleet import Fleet
from fleetrec.fleet.role_maker import Role, UserDefinedRoleMaker
from unit.fleet.test_fleet_program import Clicks, dataset  # noqa: F401 (a fixture)
from unit.server.serving import serving


@pytest.fixture
def servers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with serving(tmp_path / "held", num_servers=2, token=None) as endpoints:
        yield endpoints


def start(servers):
    """Do what a program does after each of its starts."""
    fleet = Fleet()
    fleet.init(
        UserDefinedRoleMaker(current_id=0, role=Role.WORKER, server_endpoints=servers, worker_num=1)
    )
    optimizer = fleet.distributed_optimizer(
        Adam(learning_rate=0.05), StrategyFactory.create_sync_strategy()
    )
    program = optimizer.minimize(Clicks())
    fleet.init_worker()
    return fleet, program


def test_its_metrics_are_about_all_samples_of_the_pass(servers, dataset):  # noqa: F811
    fleet, program = start(servers)
    first = fleet.train_from_dataset(program, dataset)
    assert first["SAMPLES"] == 200
    with pytest.raises(ConfigError):  # the process ends within the second pass
        fleet.train_from_dataset(program, dataset, fetch_list=["none"], print_period=4)
    program.detach(finished=False)

    fleet, program = start(servers)
    assert program.is_restarted
    assert fleet.train_from_dataset(program, dataset) == {}  # the first pass is not repeated
    assert fleet.train_from_dataset(program, dataset)["SAMPLES"] == 200
    assert fleet.infer_from_dataset(program, dataset)["SAMPLES"] == 200
    fleet.stop_worker()


def test_a_program_that_has_finished_leaves_no_journal(servers, dataset, tmp_path):  # noqa: F811
    fleet, program = start(servers)
    fleet.train_from_dataset(program, dataset)
    assert list(tmp_path.glob("logs/servers/*/worker.0.counted"))
    fleet.stop_worker()
    assert not list(tmp_path.glob("logs/servers/*/worker.0.counted"))
