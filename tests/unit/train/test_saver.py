"""Checkpoints that are written while training goes on."""

import dataclasses
import functools
import threading
from pathlib import Path

import pytest
import torch

from fleetrec.checkpoint.folder import open_folder
from fleetrec.core.cursor import Cursor
from fleetrec.core.errors import CheckpointError, FleetRecError
from fleetrec.core.progress import Progress
from fleetrec.export.follower import Follower
from fleetrec.export.serving import ServingRequest
from fleetrec.parallel.solo import SoloGroup
from fleetrec.train.checkpoints import progress_in, worker_progress_in
from fleetrec.train.pass_plan import Epochs
from fleetrec.train.phase import build_phase
from fleetrec.train.saver import Saver, SaveRequest
from making import tensors_of
from making_groups import Meeting, thread_ranks, together
from making_serving import ServingRun
from making_training import Recorder, decode_run, make_config, make_context

DEADLINE_S = 60.0
PROGRESS = Progress(pass_index=1, batch=3, step=8, cursor=Cursor(file=1, samples=48))


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


class Gate:
    """A state whose cut is written when the test says so, and may fail."""

    def __init__(self, state):
        self._state = state
        self.may_write = threading.Event()
        self.may_write.set()
        self.fails = False
        self.progress = []
        self.finished = []

    def __getattr__(self, name):
        return getattr(self._state, name)

    def cut(self, *, parent):
        return GatedCut(self, self._state.cut(parent=parent))


class GatedCut:
    def __init__(self, gate, cut):
        self._gate = gate
        self._cut = cut
        self.dense = cut.dense
        self.worker_progress = gate.progress

    def write(self, target):
        assert self._gate.may_write.wait(DEADLINE_S)
        if self._gate.fails:
            raise CheckpointError(f"{target}: the disk is full")
        return self._cut.write(target)

    def finish(self, *, published, error=""):
        self._gate.finished.append(published)
        return self._cut.finish(published=published, error=error)


@dataclasses.dataclass
class Made:
    saver: Saver
    gate: Gate
    phase: object
    recorder: Recorder

    def step(self, number):
        """Train on a batch, which changes weights and rows."""
        with self.phase.loader.epoch(0) as batches:
            batch = next(batches)
        self.phase.stepper.train(batch, progress=Progress(step=number))


@pytest.fixture
def made(tmp_path):
    run = decode_run(make_config(tmp_path)).model_copy(update={"checkpoint_base_interval": 3})
    group = SoloGroup(torch.device("cpu"))
    phase = build_phase(run.phases[0], run, group)
    gate = Gate(phase.state)
    phase = dataclasses.replace(phase, state=gate)
    plan = Epochs(2, {phase.name: phase.loader.files})
    recorder = Recorder()
    saver = Saver(run, [phase], group, plan, make_context(Path("run"), recorder))
    return Made(saver=saver, gate=gate, phase=phase, recorder=recorder)


def test_training_goes_on_while_the_state_of_the_cut_is_written(made):
    made.step(1)
    made.saver.save(SaveRequest(url="first", progress=PROGRESS))
    made.saver.wait()
    made.gate.may_write.clear()
    made.saver.save(SaveRequest(url="second", progress=PROGRESS))
    made.step(2)
    made.saver.poll()  # does not wait
    assert not Path("second").exists()
    assert made.recorder.saved_urls == ["first"]
    made.gate.may_write.set()
    made.saver.wait()
    assert made.recorder.saved_urls == ["first", "second"]
    assert tensors_of(Path("first")) == tensors_of(Path("second"))


def test_a_failed_write_publishes_nothing_and_raises_at_the_next_call(made):
    made.gate.fails = True
    made.saver.save(SaveRequest(url="broken", progress=PROGRESS))
    with pytest.raises(CheckpointError, match="the disk is full"):
        made.saver.wait()
    assert not list(Path().glob("*broken*"))
    assert made.gate.finished == [False]
    assert made.recorder.saved_urls == []
    assert not made.saver.is_saved("broken", PROGRESS)


def test_the_loop_gets_the_error_of_the_thread_at_its_next_step(made):
    made.gate.fails = True
    made.saver.save(SaveRequest(url="broken", progress=PROGRESS))
    for thread in threading.enumerate():
        if thread.name == "fleetrec-save":
            thread.join(DEADLINE_S)
    with pytest.raises(CheckpointError, match="the disk is full"):
        made.saver.poll()
    made.gate.fails = False
    made.saver.save(SaveRequest(url="sound", progress=PROGRESS))
    made.saver.wait()
    assert Path("sound/MANIFEST.json").is_file()


def test_a_manifest_says_where_the_run_is_and_what_its_rules_remember(made):
    request = SaveRequest(
        url="c", progress=PROGRESS, metrics={"learn": {"AUC": 0.5}}, rules={"x": 1}
    )
    made.saver.save(request)
    made.saver.wait()
    folder = open_folder("c", kind="checkpoint")
    assert progress_in(folder) == PROGRESS
    assert worker_progress_in(folder) == ()
    assert folder.meta["metrics"] == {"learn": {"AUC": 0.5}}
    assert folder.meta["rules"] == {"x": 1}
    assert list(folder.meta["data"]) == ["learn"]


def test_workers_that_have_not_begun_the_pass_begin_it_when_resumed(made):
    others = Progress(pass_index=1, batch=2, step=7, cursor=Cursor(file=2))
    made.gate.progress = [PROGRESS.to_bytes(), others.to_bytes(), b"", Progress().to_bytes()]
    made.saver.save(SaveRequest(url="c", progress=PROGRESS))
    made.saver.wait()
    start = PROGRESS.pass_start()
    found = worker_progress_in(open_folder("c", kind="checkpoint"))
    assert found == (PROGRESS, others, start, start)


def test_workers_that_are_ahead_of_a_chief_that_was_killed_between_passes_stay_ahead(made):
    """The servers hold their steps of the next pass, so a resumed run must not repeat them."""
    start = Progress(pass_index=2, step=8)
    ended = Progress(pass_index=1, batch=4, step=8, cursor=Cursor(file=2))
    ahead = Progress(pass_index=2, batch=1, step=9, cursor=Cursor(file=0, samples=16))
    made.gate.progress = [ended.to_bytes(), ahead.to_bytes()]
    made.saver.save(SaveRequest(url="c", progress=start))
    made.saver.wait()
    assert worker_progress_in(open_folder("c", kind="checkpoint")) == (start, ahead)
    made.gate.progress = [ended.to_bytes(), ended.to_bytes()]
    made.saver.save(SaveRequest(url="d", progress=start))
    made.saver.wait()
    assert worker_progress_in(open_folder("d", kind="checkpoint")) == ()


def test_a_worker_of_a_resumed_run_that_has_made_no_step_is_where_it_was(made):
    earlier = Progress(pass_index=1, batch=1, step=5, cursor=Cursor(file=1, samples=16))
    made.gate.progress = [PROGRESS.to_bytes(), b""]
    made.saver.set_first_progress([PROGRESS, earlier])
    made.saver.save(SaveRequest(url="c", progress=PROGRESS))
    made.saver.wait()
    assert worker_progress_in(open_folder("c", kind="checkpoint")) == (PROGRESS, earlier)


def kind_of(url):
    (record,) = open_folder(url, kind="checkpoint").meta["tables"]["learn"].values()
    return record["kind"]


def test_a_checkpoint_that_may_be_replaced_is_a_base_and_no_parent(made):
    for number, url in enumerate(("a", "best", "b")):
        made.step(number)
        replaceable = url == "best"
        made.saver.save(SaveRequest(url=url, progress=PROGRESS, is_replaceable=replaceable))
        made.saver.wait()
    assert [kind_of(url) for url in ("a", "best", "b")] == ["base", "base", "delta"]
    (record,) = open_folder("b", kind="checkpoint").meta["tables"]["learn"].values()
    assert record["parent"]["path"] == "../a"


def test_a_run_continues_the_chain_of_the_checkpoint_it_has_loaded(made):
    made.step(1)
    made.saver.save(SaveRequest(url="a", progress=PROGRESS))
    made.saver.wait()
    made.saver.begin_from("a", PROGRESS, chain=["a"])
    assert made.saver.last_saved(PROGRESS) == "a"
    made.step(2)
    made.saver.save(SaveRequest(url="b", progress=PROGRESS))
    made.saver.wait()
    assert kind_of("b") == "delta"


def test_saving_does_not_change_what_is_counted(made):
    with made.phase.loader.epoch(0) as batches:
        batch = next(batches)
        result = made.phase.stepper.evaluate(batch)
        made.phase.metrics.count(result.outputs, batch, result.loss)
    made.saver.save(SaveRequest(url="c", progress=PROGRESS))
    made.saver.wait()
    assert made.phase.metrics.values()["SAMPLES"] == batch.num_samples


class PeerCut:
    """A cut of ranks that are threads: the chief may fail to write its tables."""

    worker_progress = ()
    dense = {}

    def __init__(self, group, channel, *, fails):
        self._group = group
        self._channel = channel
        self._fails = fails

    def write(self, target):
        if self._fails:
            raise CheckpointError(f"{Path(target).name}: the disk is full")
        return {}

    def finish(self, *, published, error=""):
        sent = self._channel.all_gather(self._group.rank, error.encode())[0].decode()
        if sent and not self._group.is_chief:
            raise CheckpointError(sent)
        return published


class PeerState:
    def __init__(self, cut):
        self.cut = lambda *, parent: cut
        self.variables = list


def peer_saver(tmp_path, group, channel, *, fails):
    """Return the saver of one of two ranks; the chief's cut ``fails``."""
    run = decode_run(tmp_path / "config.yaml")
    phase = build_phase(run.phases[0], run, SoloGroup(torch.device("cpu")))
    cut = PeerCut(group, channel, fails=fails and group.is_chief)
    phase = dataclasses.replace(phase, state=PeerState(cut))
    plan = Epochs(2, {phase.name: phase.loader.files})
    return Saver(run, [phase], group, plan, make_context(Path("run"), Recorder()))


def save(saver, url):
    """Return why a save fails; empty if it does not."""
    try:
        saver.save(SaveRequest(url=url, progress=PROGRESS))
        saver.wait()
    except FleetRecError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("fails", "url", "message"),
    [
        (True, "c", "the disk is full"),
        (False, "file/c", "file"),  # the chief cannot even make the folder
        (False, "c", ""),
    ],
)
def test_a_save_that_fails_on_the_chief_fails_on_every_rank(tmp_path, fails, url, message):
    make_config(tmp_path)
    Path("file").write_text("in the way")
    channel = Meeting(2)
    savers = [peer_saver(tmp_path, g, channel, fails=fails) for g in thread_ranks()]
    found = together([functools.partial(save, saver, url) for saver in savers])
    assert message in found[0]
    assert found[0] == found[1]
    assert bool(found[0]) == bool(message)
    assert Path(url).exists() == (message == "")


def test_a_rank_that_loses_the_chief_reports_why_the_chief_has_ended(tmp_path):
    make_config(tmp_path)
    chief, peer = thread_ranks()
    channel = Meeting(2)
    savers = [peer_saver(tmp_path, g, channel, fails=True) for g in (chief, peer)]
    request = SaveRequest(url="c", progress=PROGRESS)
    together([functools.partial(saver.save, request) for saver in savers])
    with pytest.raises(CheckpointError, match="the disk is full"):
        savers[1].check_failed(timeout_s=DEADLINE_S)


def test_a_sound_save_is_no_reason_for_a_lost_rank(made):
    made.saver.check_failed()
    made.saver.save(SaveRequest(url="c", progress=PROGRESS))
    made.saver.check_failed(timeout_s=DEADLINE_S)
    made.saver.wait()


@pytest.fixture
def serving(tmp_path):
    return ServingRun(tmp_path / "serving")


def serving_request(run, number, *, progress=None):
    return SaveRequest(
        url=f"{run.place}/checkpoint-{number}",
        progress=progress or Progress(pass_index=number, step=number),
        is_delta=True,
        serving=ServingRequest(url=f"{run.place}/model-{number}", kind="delta", id=number),
    )


def test_a_serving_model_is_published_after_its_checkpoint(serving):
    for number in (1, 2):
        serving.train_pass()
        serving.saver.serve(serving_request(serving, number))
        serving.saver.wait()
    follower = Follower(serving.place)
    assert (follower.version.key, follower.version.id) == (1, 2)
    serving.assert_answers(follower)


def test_a_serving_model_is_made_of_a_checkpoint_of_the_same_moment(serving):
    serving.train_pass()
    progress = Progress(pass_index=1, step=7)
    serving.saver.save(SaveRequest(url=f"{serving.place}/saved", progress=progress))
    serving.saver.serve(serving_request(serving, 1, progress=progress))
    serving.saver.wait()
    assert not Path(serving.place, "checkpoint-1").exists()
    serving.assert_answers(Follower(serving.place))


def test_a_best_checkpoint_is_no_source_of_a_serving_model(serving):
    serving.train_pass()
    progress = Progress(pass_index=1, step=7)
    best = SaveRequest(url=f"{serving.place}/best", progress=progress, is_replaceable=True)
    serving.saver.save(best)
    serving.saver.serve(serving_request(serving, 1, progress=progress))
    serving.saver.wait()
    assert Path(serving.place, "checkpoint-1").exists()


def test_a_serving_model_that_cannot_be_published_fails_the_next_call(serving):
    serving.train_pass()
    Path(serving.place, "base_donefile.txt").write_text("nonsense\n")
    serving.saver.serve(serving_request(serving, 1))
    with pytest.raises(CheckpointError, match=r"base_donefile.txt:1: damaged"):
        serving.saver.wait()
    assert open_folder(f"{serving.place}/checkpoint-1", kind="checkpoint")
    assert not Path(serving.place, "model-1").exists()
