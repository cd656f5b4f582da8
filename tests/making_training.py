"""Training runs in this process, over a small data set, without a command line."""

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

import torch

from fleetrec.config.document import read_document
from fleetrec.config.job import RunOptions
from fleetrec.config.yaml_dialect.decode import decode
from fleetrec.models.load import model_options
from fleetrec.parallel.solo import SoloGroup
from fleetrec.train.events import Interval, PassDone, StepInfo
from fleetrec.train.run import RunContext, StoppedError, Training
from fleetrec.train.run_folder import RunFolder
from making import make_data, make_job, write_job

RUN_ID = "0123456789abcdef"
BATCH_SIZE = 16
BATCHES = 5  # of a pass


class Recorder:
    """Keeps every event of a run."""

    def __init__(self) -> None:
        self.steps: list[StepInfo] = []
        self.intervals: list[Interval] = []
        self.passes: list[PassDone] = []
        self.saved_urls: list[str] = []

    def step(self, info: StepInfo) -> None:
        self.steps.append(info)

    def interval(self, interval: Interval) -> None:
        self.intervals.append(interval)

    def pass_done(self, done: PassDone) -> None:
        self.passes.append(done)

    def saved(self, what: str, url: str, *, epoch: int) -> None:
        del what, epoch
        self.saved_urls.append(url)

    def waiting(self, what: str, seconds: float) -> None:
        """Do nothing."""

    def evaluations(self) -> dict[str, float]:
        """AUC by name of the evaluation."""
        return {done.epoch: done.metrics["AUC"] for done in self.passes if done.phase == "eval"}


class Clock:
    """Every call takes a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@dataclasses.dataclass
class Outcome:
    """What a run has left."""

    recorder: Recorder
    stopped: str | None  # the checkpoint of a run that was stopped


def make_config(tmp_path: Path, *, epochs: int = 2, **runner: Any) -> Path:
    """A job of five batches a pass, with another data set to evaluate on."""
    data = make_data(tmp_path / "data", num_samples=BATCH_SIZE * BATCHES - 3)
    other = make_data(tmp_path / "other", num_samples=50, seed=1)
    job = make_job(data, epochs=epochs, batch_size=BATCH_SIZE, **runner)
    job["dataset"].append({**job["dataset"][0], "name": "other", "data_path": str(other)})
    return write_job(job, tmp_path / "config.yaml")


def decode_run(config: Path, *overrides: str) -> RunOptions:
    document = read_document(config)
    return decode(document, assignments=overrides, model_options=model_options).runs[0]


def make_context(folder: Path, recorder: Recorder, **options: Any) -> RunContext:
    return RunContext(
        **{
            "clock": Clock(),
            "run_id": RUN_ID,
            "folder": RunFolder(path=folder),
            "observer": recorder,
            **options,
        }
    )


def train(
    run: RunOptions,
    folder: Path,
    *,
    resume: bool = False,
    stop_at: int | None = None,
    recorder: Recorder | None = None,
    **options: Any,
) -> Outcome:
    """Train in one process; ``stop_at`` is the call of should_stop that says yes."""
    recorder = recorder or Recorder()
    calls = 0

    def should_stop() -> bool:
        nonlocal calls
        calls += 1
        return calls == stop_at

    context = make_context(folder, recorder, should_stop=should_stop, **options)
    training = Training(run, SoloGroup(torch.device("cpu")), context)
    context.folder.begin(RUN_ID, fresh=not resume)
    stopped = None
    with contextlib.ExitStack() as stack:
        stack.callback(training.close, finished=False)
        try:
            training.run(resume=resume)
        except StoppedError as error:
            stopped = error.checkpoint
    return Outcome(recorder=recorder, stopped=stopped)
