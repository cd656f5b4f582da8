"""The fleet of recorded programs; tests/multiprocess/test_fluid_program.py trains with it."""

import pytest

from fleetrec import fleet, fluid
from fleetrec.core.errors import ConfigError, UnavailableError
from fleetrec.fluid.fleet import Fleet
from fleetrec.fluid.training import Training


def test_a_fleet_has_the_programs_that_were_minimized():
    loss = fluid.layers.mean(fluid.layers.data("x", shape=[1]))
    of_workers = Fleet()
    with pytest.raises(ConfigError, match=r"first minimize with fleet\.distributed_optimizer"):
        _ = of_workers.main_program
    with pytest.raises(ConfigError, match=r"first minimize with fleet\.distributed_optimizer"):
        of_workers.init_worker()
    startup = fluid.Program()
    minimize = fluid.optimizer.SGD(0.1).for_fleet.minimize
    of_workers.register(Training(loss, minimize, startup=startup, is_distributed=True))
    assert of_workers.main_program is loss.program
    assert of_workers.startup_program is startup


def test_other_calls_are_those_of_the_fleet_api():
    of_workers = Fleet()
    assert of_workers.is_worker == fleet.is_worker
    assert of_workers.util is fleet.util
    with pytest.raises(UnavailableError, match=r"fleet\.is_wroker: .* mean 'is_worker'"):
        _ = of_workers.is_wroker
    with pytest.raises(ConfigError, match=r"expected one of fluid\.optimizer, got <fleetrec"):
        of_workers.distributed_optimizer(fleet.SGD(0.1))
