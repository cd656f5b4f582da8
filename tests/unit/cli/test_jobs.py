"""Which processes make a run, and what is refused before any of them starts."""

from pathlib import Path

import pytest

from fleetrec.cli.jobs import check_devices, check_run, in_child, is_supervised_here, place_in_run
from fleetrec.config.job import (
    ClusterOptions,
    DatasetOptions,
    DeviceOptions,
    PhaseOptions,
    RunOptions,
    UpdateOptions,
)
from fleetrec.config.options import Options
from fleetrec.core.errors import ConfigError, FleetRecError, UnavailableError
from fleetrec.core.place import Place

SERVERS = ("127.0.0.1:1",)
WORKER_0 = Place(num_workers=2, server_endpoints=SERVERS)
WORKER_1 = Place(rank=1, num_workers=2, server_endpoints=SERVERS)
SERVER_0 = Place(role="server", num_workers=2, server_endpoints=SERVERS)
RANK_0 = Place(num_workers=2, store="127.0.0.1:2", launcher="torchrun")
ONLY = Place(store="127.0.0.1:2", launcher="torchrun")


def make_run(engine="single", fleet_mode="ps", device="cpu"):
    return RunOptions(
        name="train",
        kind="train",
        engine=engine,
        phases=(),
        cluster=ClusterOptions(num_workers=2, fleet_mode=fleet_mode),
        device=DeviceOptions(kind=device),
    )


@pytest.mark.parametrize("place", [WORKER_0, WORKER_1, SERVER_0])
def test_every_process_takes_its_place_in_a_run_of_several(place):
    assert place_in_run(make_run("cluster"), place) is place
    assert place_in_run(make_run("local_cluster"), place) is place


def test_a_run_of_one_process_is_run_by_worker_0():
    run = make_run("single")
    assert place_in_run(run, None) == Place()
    assert place_in_run(run, WORKER_0) == Place()
    assert place_in_run(run, WORKER_1) is None
    assert place_in_run(run, SERVER_0) is None


@pytest.mark.parametrize(
    ("engine", "place", "expected"),
    [
        ("local_cluster", None, True),
        ("local_cluster", ONLY, True),  # srun and torchrun may start one process
        ("local_cluster", WORKER_0, False),
        ("local_cluster", Place(is_supervised=True), False),
        ("single", None, False),
        ("cluster", None, False),
    ],
)
def test_processes_are_started_here_unless_they_were_started(engine, place, expected):
    assert is_supervised_here(make_run(engine), place) is expected


@pytest.mark.parametrize(
    ("run", "place", "message"),
    [
        (make_run("cluster"), None, "is for the nodes of a cluster"),
        (make_run("local_cluster", "pslib"), None, "fleet_mode pslib is not available"),
        (make_run("local_cluster", device="gpu"), None, "use device: cpu and fleet_mode: ps"),
        (make_run("cluster", "collective"), WORKER_0, "fleetrec has started 1 servers"),
        (make_run("cluster", "ps"), RANK_0, "torchrun has started 2 processes without any"),
    ],
)
def test_what_cannot_run_is_refused(run, place, message):
    with pytest.raises(FleetRecError, match=message):
        check_run(run, place)


def test_gpus_that_are_not_there_are_refused_for_all_runs_at_once():
    ranks = make_run("local_cluster", "collective", device="gpu")
    runs = [make_run(device="gpu"), ranks.model_copy(update={"name": "tune"})]
    with pytest.raises(UnavailableError, match=r"runner train: .*; runner tune: .*finds no GPU"):
        check_devices(runs, None)
    check_devices([make_run()], None)


@pytest.mark.parametrize(
    ("run", "place"),
    [
        (make_run(), None),
        (make_run("local_cluster"), None),
        (make_run("cluster"), WORKER_0),
        (make_run("cluster", "collective"), RANK_0),
        (make_run("cluster", "ps"), ONLY),
    ],
)
def test_what_can_run_is_accepted(run, place):
    check_run(run, place)


def make_clipped(strategy, *, num_workers=2, kind="train", fleet_mode="ps"):
    phase = PhaseOptions(
        name="learn",
        model_path=Path("model.py"),
        model=Options(),
        optimizer=None,
        update=UpdateOptions(clip_norm=1.0),
        dataset=DatasetOptions(name="data", data_path="data", batch_size=4),
    )
    cluster = ClusterOptions(num_workers=num_workers, strategy=strategy, fleet_mode=fleet_mode)
    return RunOptions(
        name="train", kind=kind, engine="local_cluster", phases=(phase,), cluster=cluster
    )


def test_clipping_by_the_norm_of_all_workers_is_refused_before_any_process_starts():
    with pytest.raises(ConfigError, match="runner train: phase learn: clipping by norm with"):
        check_run(make_clipped("sync"), None)


@pytest.mark.parametrize(
    "run",
    [
        make_clipped("async"),
        make_clipped("sync", num_workers=1),
        make_clipped("sync", kind="infer"),
        make_clipped("sync", fleet_mode="collective"),
    ],
)
def test_clipping_is_accepted_where_one_process_has_the_whole_gradient(run):
    check_run(run, None)


def _refuse():
    raise ConfigError(["one", "two"])


def test_errors_of_a_child_are_raised_here():
    with pytest.raises(ConfigError) as caught:
        in_child(_refuse)
    assert caught.value.problems == ("one", "two")
    with pytest.raises(UnavailableError, match="nothing"):
        in_child(_unavailable)


def _unavailable():
    raise UnavailableError("nothing")
