"""How workers agree on the weights, in the words of both generations of the Fleet API."""

import dataclasses
import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from fleetrec.config.job import ClusterOptions, CommunicatorOptions
from fleetrec.config.problems import hint
from fleetrec.core.errors import ConfigError

logger = logging.getLogger(__name__)


# What a worker's settings are called in a job; the others have no counterpart here.
_SETTINGS = MappingProxyType(
    {
        "max_merge_var_num": "max_merge_var_num",
        "send_queue_size": "send_queue_size",
        "min_send_grad_num_before_recv": "max_send_grad_num_before_recv",
        "thread_pool_size": "thread_pool_size",
    }
)
_WITHOUT_EFFECT = ("independent_recv_thread", "launch_barrier", "send_wait_times")


class _Settings:
    """An object whose attributes are settings; assigning an unknown one is an error."""

    _known: ClassVar[tuple[str, ...]]

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._known and not name.startswith("_"):
            kind = type(self).__name__
            raise ConfigError([f"{kind}: no setting {name!r}{hint(name, self._known)}"])
        super().__setattr__(name, value)


class DistributedStrategy(_Settings):
    """The second generation: ``a_sync`` is async, with ``k_steps`` geo; without it, sync."""

    _known = ("a_sync", "a_sync_configs")

    def __init__(self) -> None:
        self.a_sync = True
        self._configs: dict[str, int] = {"k_steps": 0}

    @property
    def a_sync_configs(self) -> dict[str, int]:
        """Return what was set."""
        return dict(self._configs)

    @a_sync_configs.setter
    def a_sync_configs(self, configs: Mapping[str, int]) -> None:
        known = ("k_steps", *_SETTINGS, *_WITHOUT_EFFECT)
        unknown = sorted(set(configs) - set(known))
        if unknown:
            raise ConfigError(
                [f"a_sync_configs: unknown: {', '.join(unknown)}; known: {', '.join(known)}"]
            )
        for name in configs.keys() & set(_WITHOUT_EFFECT):
            logger.warning("a_sync_configs: %s has no effect", name)
        self._configs |= configs

    def options(self) -> ClusterOptions:
        """Return the strategy as jobs name it."""
        steps = self._configs["k_steps"]
        if steps < 0 or (steps and not self.a_sync):
            raise ConfigError(
                [f"a_sync_configs: k_steps {steps} does not go with a_sync {self.a_sync}"]
            )
        settings = {ours: self._configs[n] for n, ours in _SETTINGS.items() if n in self._configs}
        communicator = CommunicatorOptions.model_validate(settings)
        if steps:
            return ClusterOptions(strategy="geo", geo_push_steps=steps, communicator=communicator)
        strategy: Literal["async", "sync"] = "async" if self.a_sync else "sync"
        return ClusterOptions(strategy=strategy, communicator=communicator)


@dataclasses.dataclass(kw_only=True)
class DistributeTranspilerConfig(_Settings):
    """The first generation; what its switches mean together is not what their names say."""

    _known: ClassVar[tuple[str, ...]] = (
        "sync_mode",
        "runtime_split_send_recv",
        "geo_sgd_mode",
        "geo_sgd_need_push_nums",
    )
    sync_mode: bool = True
    runtime_split_send_recv: bool = False
    geo_sgd_mode: bool = False
    geo_sgd_need_push_nums: int = 100

    def options(self) -> ClusterOptions:
        """Return the strategy as jobs name it."""
        if self.geo_sgd_mode:
            return ClusterOptions(strategy="geo", geo_push_steps=self.geo_sgd_need_push_nums)
        if self.sync_mode:
            return ClusterOptions(strategy="sync")
        return ClusterOptions(strategy="async" if self.runtime_split_send_recv else "half_async")


class StrategyFactory:
    """The first generation, by name."""

    @staticmethod
    def create_sync_strategy() -> DistributeTranspilerConfig:
        """Let all workers make every step together."""
        return DistributeTranspilerConfig()

    @staticmethod
    def create_async_strategy() -> DistributeTranspilerConfig:
        """Let no worker wait for another."""
        return DistributeTranspilerConfig(sync_mode=False, runtime_split_send_recv=True)

    @staticmethod
    def create_half_async_strategy() -> DistributeTranspilerConfig:
        """Let a worker wait for its own pushes only."""
        return DistributeTranspilerConfig(sync_mode=False)

    @staticmethod
    def create_geo_strategy(update_frequency: int = 100) -> DistributeTranspilerConfig:
        """Let workers train on their own, and exchange changes every ``update_frequency`` steps."""
        return DistributeTranspilerConfig(
            sync_mode=False, geo_sgd_mode=True, geo_sgd_need_push_nums=update_frequency
        )


Strategy = DistributedStrategy | DistributeTranspilerConfig
