"""From ``train_distribute`` to processes: their number, their roles, and the meaning of a step."""

import dataclasses
from typing import Literal

from fleetrec.config.job import ClusterOptions, DeviceOptions
from fleetrec.config.pipeline_dialect.train import TrainConfig
from fleetrec.config.problems import Problems
from fleetrec.config.processes import Processes

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
    """How a pipeline is distributed over processes; ``num_steps`` is per worker."""

    engine: Engine
    device: DeviceOptions
    cluster: ClusterOptions
    num_steps: int | None


def distribute(train: TrainConfig, processes: Processes) -> Distribution:
    """Return the distribution of ``train_distribute`` over these processes."""
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
        num_steps=steps_of_one_worker(
            train, num_workers=num_workers, has_servers=_has_servers(train, processes)
        ),
    )


def steps_of_one_worker(train: TrainConfig, *, num_workers: int, has_servers: bool) -> int | None:
    """Return after how many steps a worker stops; None if the data decides.

    With servers ``num_steps`` counts the batches of all workers. If all ranks run every step
    together, it counts these steps.
    """
    if not train.num_steps:
        return None
    if has_servers:
        return -(-train.num_steps // num_workers)
    return train.num_steps


def check_distribution(train: TrainConfig, problems: Problems) -> None:
    """Report what this strategy cannot distribute over processes."""
    if train.train_distribute == "ExascaleStrategy":
        text = "ExascaleStrategy is not supported; EmbeddingParallelStrategy shards tables too"
        problems.note(("train_config", "train_distribute"), text)


def check_update(train: TrainConfig, processes: Processes, problems: Problems) -> None:
    """Report updates that are not supported with several processes."""
    distribution = distribute(train, processes)
    is_sync = distribution.cluster.fleet_mode == "ps" and distribution.cluster.strategy == "sync"
    has_several = distribution.engine != "single" and distribution.cluster.num_workers > 1
    if train.gradient_clipping_by_norm and is_sync and has_several:
        text = (
            "needs the norm of the mean gradient of all workers, of which every server holds only "
            "a part; set sync_replicas: false (each worker clips its own gradient), or set "
            "train_distribute to a strategy without servers, e.g. EmbeddingParallelStrategy"
        )
        problems.note(("train_config", "gradient_clipping_by_norm"), text)


def distribution_notices(train: TrainConfig, processes: Processes, problems: Problems) -> list[str]:
    """Return notices about fields whose meaning depends on the number of processes."""
    found: list[str] = []

    def say(field: str, text: str) -> None:
        found.append(problems.spell(("train_config", field), text))

    strategy, given = train.train_distribute, train.model_fields_set
    distribution = distribute(train, processes)
    num_workers = distribution.cluster.num_workers
    if distribution.engine == "single" and strategy != "NoStrategy":
        say("train_distribute", f"{strategy} in one process; --num_workers N starts N here")
    is_collective = distribution.cluster.fleet_mode == "collective"
    if distribution.engine == "cluster" and strategy == "NoStrategy" and is_collective:
        text = f"the launcher has started no servers: {num_workers} ranks make every step together"
        say("train_distribute", text)
    meaning = _meaning_of_sync(train, distribution)
    if meaning:
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


def _meaning_of_sync(train: TrainConfig, distribution: Distribution) -> str:
    """Return what ``sync_replicas`` means here, if a user may expect something else."""
    strategy, is_given = train.train_distribute, "sync_replicas" in train.model_fields_set
    is_shared = distribution.engine != "single" and distribution.cluster.num_workers > 1
    if distribution.cluster.fleet_mode == "ps" and distribution.cluster.strategy == "sync":
        if is_shared and not is_given:
            return "is true, its default in EasyRec: workers wait for each other in every step"
        return ""
    if strategy == "NoStrategy" or not (train.sync_replicas and is_given):
        return ""
    if strategy == "PSStrategy":
        return "workers of PSStrategy never wait for each other; NoStrategy lets them"
    return f"has no effect: all processes of {strategy} make every step together"


def _has_servers(train: TrainConfig, processes: Processes) -> bool:
    """Return True if workers push to servers.

    NoStrategy leaves it to the launcher: workers that were started without servers are ranks.
    """
    if train.train_distribute == "NoStrategy" and not processes.is_local:
        return bool(processes.num_servers)
    return train.train_distribute in WITH_SERVERS


def _ranks_per_worker(train: TrainConfig) -> int:
    return max(1, train.num_gpus_per_worker) if train.train_distribute in SEVERAL_GPUS else 1


def _cluster(train: TrainConfig, processes: Processes, num_workers: int) -> ClusterOptions:
    strategy = train.train_distribute
    if _has_servers(train, processes):
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
