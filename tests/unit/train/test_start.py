"""What a run starts with, in every process of a group."""

import functools
import json
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

from fleetrec.checkpoint.folder import open_folder
from fleetrec.config.job import ClusterOptions
from fleetrec.core.progress import Progress
from fleetrec.parallel.solo import SoloGroup
from fleetrec.train.checkpoints import read_phase
from fleetrec.train.pass_plan import Epochs
from fleetrec.train.phase import build_phase
from fleetrec.train.start import Start, Starter
from making_groups import together, worker_group
from making_training import Recorder, decode_run, make_config, make_context, train
from unit.server.serving import serving

CHECKPOINT = "steps/epoch_0_batch_2"


class Worker(SoloGroup):
    """One of two workers in one process: the first one's contents are kept for the second."""

    size = 2

    def __init__(self, rank, gathered, *, has_started=False):
        super().__init__(torch.device("cpu"))
        self.rank = rank
        self.is_chief = rank == 0
        self.has_started = has_started
        self._gathered = gathered

    @property
    def rule_group(self):
        return SoloGroup(self.device) if self.is_chief else None

    def all_gather(self, content, *, key, pass_index):
        assert pass_index is None
        first = self._gathered.setdefault(key, content)
        return [first, b""]


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def config(tmp_path):
    return make_config(tmp_path, save_step_interval=2, save_step_path="steps")


@pytest.fixture
def run(config):
    """A run of two workers that was stopped after three steps of the first."""
    found = decode_run(config)
    train(found, Path("run"), stop_at=3)
    manifest = Path(CHECKPOINT, "MANIFEST.json")
    content = json.loads(manifest.read_text())
    own = content["progress"]
    content["worker_progress"] = [own, {**own, "batch": 1, "step": 1}]
    manifest.write_text(json.dumps(content))
    return found


def start(run, group, *, resume):
    phases = [build_phase(options, run, group) for options in run.phases]
    plan = Epochs(run.num_epochs, {phase.name: phase.loader.files for phase in phases})
    starter = Starter(run, phases, group, plan, make_context(Path("run"), Recorder()))
    return starter.start(resume=resume), phases[0]


def weights(phase):
    return {name: value.tolist() for name, value in phase.model.state_dict().items()}


def test_every_worker_begins_where_it_was(run):
    gathered = {}
    first, chief = start(run, Worker(0, gathered), resume=True)
    second, other = start(run, Worker(1, gathered), resume=True)
    assert second == first
    assert (first.url, first.loaded, first.is_exact) == (CHECKPOINT, "everything", True)
    assert [first.progress_of(rank).step for rank in (0, 1)] == [3, 1]
    assert weights(other) == weights(chief)  # what a worker holds for itself is loaded too


def test_a_restarted_chief_loads_nothing_for_the_others(run):
    gathered = {}
    first, _ = start(run, Worker(0, gathered), resume=True)
    for path in Path("steps").rglob("MANIFEST.json"):  # a search would find nothing
        if path.parent.name != Path(CHECKPOINT).name:
            path.unlink()
    again, _ = start(run, Worker(0, gathered, has_started=True), resume=False)
    assert again == first


def test_a_warm_start_reaches_every_worker(run, config):
    gathered = {}
    warm = decode_run(config, f"runner.train.init_model_path={CHECKPOINT}", "runner.train.seed=9")
    first, chief = start(warm, Worker(0, gathered), resume=False)
    _, other = start(warm, Worker(1, gathered), resume=False)
    assert (first.loaded, first.progress) == ("weights", (Progress(),))
    assert weights(other) == weights(chief)


@pytest.mark.parametrize("mode", ["sync", "geo"])
def test_frozen_weights_are_those_of_the_checkpoint_on_every_worker_of_servers(
    run, config, tmp_path, mode
):
    """Servers hold what is trained; frozen weights and buffers are each worker's own."""
    del run  # it has written the checkpoint
    saved = open_folder(CHECKPOINT, kind="checkpoint")
    expected = read_phase(saved, "learn").tensors["model"]
    frozen = [name for name in expected if name.endswith("weight")]
    warm = decode_run(
        config,
        f"runner.train.init_model_path={CHECKPOINT}",
        f"runner.train.finetuning_aspect_varnames=[{', '.join(frozen)}]",
        "runner.train.seed=9",
    )
    cluster = ClusterOptions(num_workers=2, strategy=mode)
    with serving(tmp_path / "servers", num_workers=2) as endpoints, ExitStack() as stack:
        groups = [worker_group(endpoints, cluster, index=index) for index in range(2)]
        for group in groups:
            stack.callback(group.close, finished=False)
        calls = [functools.partial(start, warm, group, resume=False) for group in groups]
        for _, phase in together(calls):
            found = phase.model.state_dict()
            for name in frozen:
                assert torch.equal(found[name], expected[name]), name


def test_a_new_run_loads_nothing(config):
    found, _ = start(decode_run(config), Worker(0, {}), resume=False)
    assert found == Start()


def test_a_start_is_the_same_after_it_was_sent():
    found = Start(url="c/1", loaded="everything", progress=(Progress(step=3), Progress(step=4)))
    assert Start.from_bytes(found.to_bytes()) == found
    assert found.progress_of(1).step == 4
    assert Start(progress=(Progress(step=7),)).progress_of(5).step == 7
