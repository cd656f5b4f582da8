"""From ``train_distribute`` to processes: how many, of which roles, and what a step is."""

import dataclasses
from typing import Literal

from fleetrec.config.job import ClusterOptions, DeviceOptions
from fleetrec.config.pipeline_dialect.train import TrainConfig
from fleetrec.config.problems import Problems
from fleetrec.core.processes import Processes

Engine = Literal["single", "local_cluster", "cluster"]

WITH_SERVERS = ("NoStrategy", "PSStrategy")
DATA_PARALLEL = (
    "MirroredStrategy",
    "CollectiveAllReduceStrategy",
    "MultiWorkerMirroredStrategy",
    "HorovodStrategy",
)
HYBRID = ("EmbeddingParallelStrategy", "SokStrategy")
KEY_VALUE = ("SokStrategy",)  # all tables grow
SEVERAL_GPUS = ("MirroredStrategy", "MultiWorkerMirroredStrategy", "PSStrategy")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distribution:
    """How a pipeline is spread over processes; ``num_steps`` are those of one worker."""

    engine: Engine
    device: DeviceOptions
    cluster: ClusterOptions
    num_steps: int | None


def distribute(train: TrainConfig, processes: Processes) -> Distribution:
    """Return what ``train_distribute`` means for so many processes."""
    num_workers = processes.num_workers
    if processes.is_local:  # else a launcher has started one for each GPU
        num_workers *= _ranks_per_worker(train)
    is_single = num_workers == 1 and processes.is_local
    has_servers = not is_single and train.train_distribute in WITH_SERVERS
    num_gpus = num_workers if processes.is_local else processes.num_gpus
    return Distribution(
        engine="single" if is_single else "local_cluster" if processes.is_local else "cluster",
        device=DeviceOptions(kind="gpu", gpus=tuple(range(num_gpus)))
        if processes.num_gpus and train.num_gpus_per_worker and not has_servers
        else DeviceOptions(),
        cluster=_cluster(train, processes, num_workers),
        num_steps=(train.num_steps or None)
        if is_single
        else steps_of_one_worker(train, num_workers=num_workers),
    )


def steps_of_one_worker(train: TrainConfig, *, num_workers: int) -> int | None:
    """Return after how many steps a worker stops; None if the data decides.

    With servers ``num_steps`` counts the batches of all workers. Where all ranks make every step
    together it counts such steps.
    """
    if not train.num_steps:
        return None
    if train.train_distribute in WITH_SERVERS:
        return -(-train.num_steps // num_workers)
    return train.num_steps


def check_distribution(train: TrainConfig, problems: Problems) -> None:
    """Note what cannot be spread over processes so."""
    if train.train_distribute == "ExascaleStrategy":
        text = "ExascaleStrategy needs a platform of its own; EmbeddingParallelStrategy shards too"
        problems.note(("train_config", "train_distribute"), text)


def check_update(train: TrainConfig, processes: Processes, problems: Problems) -> None:
    """Note ways to move weights that only a process on its own knows."""
    distribution = distribute(train, processes)
    if distribution.engine == "single":
        return
    if train.gradient_clipping_by_norm:
        text = "needs the gradients of all rows in one process; leave it out, or train in one"
        problems.note(("train_config", "gradient_clipping_by_norm"), text)
    if distribution.cluster.fleet_mode != "ps":
        return
    if len(train.optimizer_config) > 1:
        text = (
            "parameter servers move all weights by one optimizer; leave this out, or set "
            "train_distribute to a strategy without servers, e.g. EmbeddingParallelStrategy"
        )
        problems.note(("train_config", "optimizer_config", 1), text)
    scales = [one.embedding_learning_rate_multiplier for one in train.optimizer_config[:1]]
    if scales not in ([], [None], [1]):
        at = ("train_config", "optimizer_config", 0, "embedding_learning_rate_multiplier")
        problems.note(at, "parameter servers do not scale gradients of rows; leave it out")


def distribution_notices(train: TrainConfig, processes: Processes, problems: Problems) -> list[str]:
    """Return where the number of processes makes something else of the fields."""
    found: list[str] = []

    def say(field: str, text: str) -> None:
        found.append(problems.spell(("train_config", field), text))

    strategy, given = train.train_distribute, train.model_fields_set
    distribution = distribute(train, processes)
    num_workers = distribution.cluster.num_workers
    if distribution.engine == "single" and strategy != "NoStrategy":
        say("train_distribute", f"{strategy} in one process; --num_workers N starts N here")
    if strategy != "NoStrategy" and train.sync_replicas and "sync_replicas" in given:
        meaning = (
            "workers of PSStrategy never wait for each other; NoStrategy lets them"
            if strategy == "PSStrategy"
            else f"has no effect: all processes of {strategy} make every step together"
        )
        say("sync_replicas", meaning)
    if train.num_gpus_per_worker > 1 and strategy not in SEVERAL_GPUS:
        say("num_gpus_per_worker", f"more than 1 has no effect with {strategy}")
    if train.num_gpus_per_worker and distribution.device.kind == "cpu":
        has_servers = distribution.engine != "single" and strategy in WITH_SERVERS
        is_asked = "num_gpus_per_worker" in given
        if has_servers and (is_asked or processes.num_gpus):
            say("num_gpus_per_worker", "workers with servers train on the CPU")
        elif not has_servers and (is_asked or strategy not in WITH_SERVERS):
            say("num_gpus_per_worker", "no GPU found, training on the CPU")
    if distribution.num_steps != (train.num_steps or None):
        say(
            "num_steps",
            f"{train.num_steps} batches over {num_workers} workers: each makes "
            f"{distribution.num_steps} steps",
        )
    return found


def _ranks_per_worker(train: TrainConfig) -> int:
    return max(1, train.num_gpus_per_worker) if train.train_distribute in SEVERAL_GPUS else 1


def _cluster(train: TrainConfig, processes: Processes, num_workers: int) -> ClusterOptions:
    strategy = train.train_distribute
    if strategy in WITH_SERVERS:
        is_sync = strategy == "NoStrategy" and train.sync_replicas
        return ClusterOptions(
            num_workers=num_workers,
            num_servers=processes.num_servers or 1,
            fleet_mode="ps",
            strategy="sync" if is_sync else "async",
        )
    return ClusterOptions(
        num_workers=num_workers,
        fleet_mode="collective",
        placement="sharded" if strategy in HYBRID else "replicated",
    )
