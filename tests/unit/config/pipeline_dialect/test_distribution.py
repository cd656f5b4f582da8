from pathlib import Path

import pytest

from fleetrec.config.pipeline_dialect.decode import Changes, decode_pipeline
from fleetrec.config.processes import Processes, started_processes
from fleetrec.core.errors import ConfigError
from fleetrec.core.place import Place
from fleetrec.models.pipeline_classes import pipeline_classes
from making_pipelines import MODELS, write_pipeline

PATHS = {"train": Path("train.csv"), "eval": Path("eval.csv")}
NUM_STEPS = 200  # of the pipelines that are made here
FOUR = Processes(num_workers=4)
FOUR_OF_FOUR = Processes(num_workers=4, num_gpus=4)
STARTED_ON_TWO_GPUS = Processes(num_workers=8, is_local=False, num_gpus=2)

SECOND_OPTIMIZER = """optimizer_config {
  adam_optimizer { learning_rate { constant_learning_rate { learning_rate: 0.1 } } }
}"""


@pytest.fixture(scope="module")
def classes():
    return pipeline_classes()


@pytest.fixture
def decoded(tmp_path, classes):
    def decode(train_config="", processes=FOUR):
        path = write_pipeline(tmp_path, MODELS["DeepFM"], paths=PATHS)
        text = path.read_text()
        path.write_text(text.replace("num_steps:", f"{train_config} num_steps:", 1))
        return decode_pipeline(
            path, classes=classes, changes=Changes(), kind="train", processes=processes
        ).job

    return decode


@pytest.mark.parametrize(
    ("train_config", "strategy"),
    [
        ("", "sync"),
        ("sync_replicas: true", "sync"),
        ("sync_replicas: false", "async"),
        ("train_distribute: PSStrategy sync_replicas: false", "async"),
    ],
)
def test_workers_of_these_strategies_meet_at_servers(decoded, train_config, strategy):
    (run,) = decoded(train_config, Processes(num_workers=4, num_servers=2)).runs
    assert run.engine == "local_cluster"
    assert (run.cluster.fleet_mode, run.cluster.strategy) == ("ps", strategy)
    assert (run.cluster.num_workers, run.cluster.num_servers) == (4, 2)


@pytest.mark.parametrize(
    ("strategy", "placement"),
    [
        ("MirroredStrategy", "replicated"),
        ("CollectiveAllReduceStrategy", "replicated"),
        ("MultiWorkerMirroredStrategy", "replicated"),
        ("HorovodStrategy", "replicated"),
        ("EmbeddingParallelStrategy", "sharded"),
        ("SokStrategy", "sharded"),
    ],
)
def test_ranks_of_these_strategies_need_no_servers(decoded, strategy, placement):
    (run,) = decoded(f"train_distribute: {strategy}").runs
    assert run.engine == "local_cluster"
    assert (run.cluster.fleet_mode, run.cluster.placement) == ("collective", placement)
    assert run.cluster.num_workers == 4


def test_num_steps_counts_the_batches_of_all_workers_where_there_are_servers(decoded):
    job = decoded()
    assert job.runs[0].num_steps == NUM_STEPS / 4
    (notice,) = [notice for notice in job.notices if "train_config.num_steps" in notice]
    assert notice.endswith("200 batches over 4 workers: each makes 50 steps")
    assert decoded(processes=Processes(num_workers=3)).runs[0].num_steps == 67
    assert decoded(processes=Processes(num_workers=500)).runs[0].num_steps == 1


def test_num_steps_counts_steps_of_all_ranks_together_where_there_are_none(decoded):
    job = decoded("train_distribute: EmbeddingParallelStrategy")
    assert job.runs[0].num_steps == NUM_STEPS
    assert not [notice for notice in job.notices if "train_config.num_steps" in notice]


@pytest.mark.parametrize("strategy", ["NoStrategy", "PSStrategy", "EmbeddingParallelStrategy"])
def test_one_process_trains_alone_whatever_the_strategy(decoded, strategy):
    job = decoded(f"train_distribute: {strategy}", Processes())
    assert job.runs[0].engine == "single"
    assert job.runs[0].num_steps == NUM_STEPS
    told = [notice for notice in job.notices if "in one process" in notice]
    assert len(told) == (strategy != "NoStrategy")


def test_what_a_launcher_has_started_is_a_cluster(decoded):
    (run,) = decoded(processes=Processes(num_workers=2, num_servers=1, is_local=False)).runs
    assert run.engine == "cluster"
    (run,) = decoded(processes=Processes(num_workers=1, is_local=False)).runs
    assert run.engine == "cluster"


def test_every_gpu_of_a_mirrored_worker_is_a_rank(decoded):
    text = "train_distribute: MirroredStrategy num_gpus_per_worker: 2"
    assert decoded(text, Processes()).runs[0].cluster.num_workers == 2
    assert decoded(text).runs[0].cluster.num_workers == 8
    started = Processes(num_workers=4, is_local=False)
    assert decoded(text, started).runs[0].cluster.num_workers == 4, "the launcher has counted"


@pytest.mark.parametrize(
    ("train_config", "processes", "device"),
    [
        ("", Processes(num_gpus=2), ("gpu", (0,))),
        ("num_gpus_per_worker: 0", Processes(num_gpus=2), ("cpu", (0,))),
        ("train_distribute: MirroredStrategy num_gpus_per_worker: 2", 2, ("gpu", (0, 1))),
        ("train_distribute: MirroredStrategy num_gpus_per_worker: 4", 2, ("gpu", (0, 1, 2, 3))),
        (
            "train_distribute: HorovodStrategy",
            Processes(num_workers=3, num_gpus=4),
            ("gpu", (0, 1, 2)),
        ),
        ("train_distribute: HorovodStrategy num_gpus_per_worker: 0", FOUR_OF_FOUR, ("cpu", (0,))),
        ("train_distribute: SokStrategy", STARTED_ON_TWO_GPUS, ("gpu", (0, 1))),
        ("", FOUR_OF_FOUR, ("cpu", (0,))),  # with servers
        ("train_distribute: PSStrategy", FOUR_OF_FOUR, ("cpu", (0,))),
        ("train_distribute: MirroredStrategy", Processes(), ("cpu", (0,))),
    ],
)
def test_gpus_are_used_where_they_are(decoded, train_config, processes, device):
    if isinstance(processes, int):
        processes = Processes(num_gpus=processes)
    (run,) = decoded(train_config, processes).runs
    assert (run.device.kind, run.device.gpus) == device


@pytest.mark.parametrize(
    ("train_config", "processes", "text"),
    [
        ("train_distribute: MirroredStrategy", Processes(), "no GPU found, training on the CPU"),
        ("train_distribute: HorovodStrategy", FOUR, "no GPU found, training on the CPU"),
        ("train_distribute: SokStrategy", FOUR, "no GPU found, training on the CPU"),
        ("num_gpus_per_worker: 1", Processes(), "no GPU found, training on the CPU"),
        ("num_gpus_per_worker: 1", FOUR, "workers with servers train on the CPU"),
        ("", FOUR_OF_FOUR, "workers with servers train on the CPU"),
        ("", Processes(), None),
        ("", FOUR, None),
        ("num_gpus_per_worker: 0", Processes(num_gpus=1), None),
        ("train_distribute: HorovodStrategy num_gpus_per_worker: 0", FOUR, None),
        ("train_distribute: HorovodStrategy", FOUR_OF_FOUR, None),
    ],
)
def test_gpus_that_are_not_used_are_noticed(decoded, train_config, processes, text):
    told = [n for n in decoded(train_config, processes).notices if " the CPU" in n]
    assert [notice.partition("num_gpus_per_worker: ")[2] for notice in told] == (
        [text] if text else []
    )


def test_clipping_that_servers_cannot_do_is_refused_before_they_start(decoded):
    clipped = "gradient_clipping_by_norm: 1.0"
    with pytest.raises(ConfigError) as caught:
        decoded(clipped, FOUR)
    (problem,) = caught.value.problems
    assert "train_config.gradient_clipping_by_norm: needs the norm of the mean gradient" in problem
    for text, processes in (
        (clipped, Processes()),
        (f"{clipped} sync_replicas: false", FOUR),
        (f"{clipped} train_distribute: HorovodStrategy", FOUR),
    ):
        (run,) = decoded(text, processes).runs
        assert run.phases[0].update.clip_norm == 1.0


@pytest.mark.parametrize("strategy", ["NoStrategy", "PSStrategy", "HorovodStrategy"])
def test_several_optimizers_are_taken_with_and_without_servers(decoded, strategy):
    (run,) = decoded(f"train_distribute: {strategy} {SECOND_OPTIMIZER}").runs
    assert len(run.phases[0].update.optimizers) == 2


def test_a_key_value_strategy_lets_tables_grow(decoded):
    def sizes(strategy):
        (run,) = decoded(f"train_distribute: {strategy}").runs
        groups = run.phases[0].model.groups
        features = [feature for group in groups for feature in group.features]
        return [f.embedded.num_rows for f in features if f.embedded and f.name == "user"]

    assert all(sizes("EmbeddingParallelStrategy"))
    assert sizes("SokStrategy")
    assert not any(sizes("SokStrategy"))


def test_fields_that_a_strategy_does_not_read_are_noticed(decoded):
    def notices(text, field):
        return [n for n in decoded(text, FOUR_OF_FOUR).notices if f"train_config.{field}" in n]

    text = "train_distribute: HorovodStrategy sync_replicas: true num_gpus_per_worker: 2"
    (notice,) = notices(text, "sync_replicas")
    assert "has no effect: all processes of HorovodStrategy make every step together" in notice
    (notice,) = notices(text, "num_gpus_per_worker")
    assert notice.endswith("more than 1 has no effect with HorovodStrategy")
    (notice,) = notices("train_distribute: PSStrategy sync_replicas: true", "sync_replicas")
    assert "workers of PSStrategy never wait for each other" in notice
    assert not notices("train_distribute: HorovodStrategy sync_replicas: false", "sync_replicas")


def test_a_strategy_of_another_platform_is_refused_by_name(decoded):
    with pytest.raises(ConfigError) as caught:
        decoded("train_distribute: ExascaleStrategy")
    (problem,) = caught.value.problems
    assert "train_config.train_distribute: ExascaleStrategy is not supported" in problem


def test_workers_that_a_launcher_started_without_servers_are_ranks(decoded):
    started = Processes(num_workers=4, num_servers=0, is_local=False)
    job = decoded(processes=started)
    (run,) = job.runs
    assert (run.engine, run.cluster.fleet_mode) == ("cluster", "collective")
    assert run.num_steps == NUM_STEPS
    (notice,) = [notice for notice in job.notices if "train_distribute" in notice]
    assert notice.endswith("no servers: 4 ranks make every step together")


def test_workers_that_a_launcher_started_with_servers_push_to_them(decoded):
    place = Place(num_workers=4, server_endpoints=("a:1", "b:1"))
    (run,) = decoded(processes=started_processes(place)).runs
    assert (run.engine, run.cluster.fleet_mode, run.cluster.num_servers) == ("cluster", "ps", 2)
    assert run.num_steps == NUM_STEPS / 4
