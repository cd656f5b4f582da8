"""What the words of the Fleet API mean in ours."""

import pytest

from fleetrec.core.errors import ConfigError
from fleetrec.fleet import DistributedStrategy, DistributeTranspilerConfig, StrategyFactory


def strategy_of(maker):
    return maker().options().strategy


def test_the_factory_makes_what_it_says():
    factory = StrategyFactory
    assert strategy_of(factory.create_sync_strategy) == "sync"
    assert strategy_of(factory.create_async_strategy) == "async"
    assert strategy_of(factory.create_half_async_strategy) == "half_async"
    geo = factory.create_geo_strategy(400).options()
    assert (geo.strategy, geo.geo_push_steps) == ("geo", 400)


def test_a_transpiler_config_that_is_not_sync_alone_is_half_async():
    config = DistributeTranspilerConfig()
    assert config.options().strategy == "sync"
    config.sync_mode = False
    assert config.options().strategy == "half_async"
    config.runtime_split_send_recv = True
    assert config.options().strategy == "async"


def test_the_second_generation_is_read_by_its_rules():
    strategy = DistributedStrategy()
    assert strategy.options().strategy == "async"
    strategy.a_sync_configs = {"k_steps": 50}
    assert (strategy.options().strategy, strategy.options().geo_push_steps) == ("geo", 50)
    strategy.a_sync = False
    with pytest.raises(ConfigError, match="k_steps 50 does not go with a_sync False"):
        strategy.options()
    strategy.a_sync_configs = {"k_steps": 0}
    assert strategy.options().strategy == "sync"


def test_an_unknown_setting_is_refused():
    with pytest.raises(ConfigError, match="a_sync_configs: unknown: k_step; known: k_steps"):
        DistributedStrategy().a_sync_configs = {"k_step": 1}


def test_settings_of_a_worker_are_passed_on(caplog):
    strategy = DistributedStrategy()
    strategy.a_sync_configs = {
        "max_merge_var_num": 4,
        "min_send_grad_num_before_recv": 3,
        "launch_barrier": 1,
    }
    communicator = strategy.options().communicator
    assert communicator.max_merge_var_num == 4
    assert communicator.max_send_grad_num_before_recv == 3
    assert caplog.messages == ["a_sync_configs: launch_barrier has no effect"]


def test_a_misspelt_attribute_is_refused():
    config = DistributeTranspilerConfig()
    with pytest.raises(ConfigError, match="no setting 'sync_mod'; did you mean 'sync_mode'"):
        config.sync_mod = False
    strategy = DistributedStrategy()
    with pytest.raises(ConfigError, match="no setting 'async'; did you mean 'a_sync'"):
        setattr(strategy, "async", False)
    with pytest.raises(ConfigError, match="did you mean 'a_sync_configs'"):
        strategy.a_sync_config = {"k_steps": 3}
