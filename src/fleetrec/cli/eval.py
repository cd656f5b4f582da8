"""``fleetrec eval``: the metrics of one checkpoint."""

import contextlib
import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path

from fleetrec.cli.job import load_requested
from fleetrec.cli.logs import console_logging
from fleetrec.cli.process import run_process
from fleetrec.cli.train_eval import joined
from fleetrec.config.job import Job, RunOptions
from fleetrec.config.load import PIPELINE_FILE, JobRequest
from fleetrec.config.pipeline_dialect.decode import Changes
from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError, ConfigError
from fleetrec.core.place import Place
from fleetrec.train.checkpoints import (
    checkpoints_below,
    open_checkpoint,
    open_newest,
    progress_in,
    published_below,
    url_of,
)
from fleetrec.train.evaluate import write_result
from fleetrec.train.events import Interval, PassDone, QuietObserver, StepInfo
from fleetrec.train.run_folder import RunFolder, run_folder_of

logger = logging.getLogger(__name__)

LOGS = Path("logs")
EVAL = "eval"


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvalRequest:
    """The arguments of the command."""

    source: str | None
    model_dir: str | None = None
    eval_input_path: Sequence[str] | None = None
    checkpoint: str | None = None
    result_name: str = "eval_result.txt"
    overrides: Sequence[str] = ()
    quiet: bool = False

    def load(self) -> Job:
        """Load the job: that of the model folder, if it holds one."""
        with contextlib.ExitStack() as stack:
            source = self.source
            written = storage.join(self.model_dir or ".", PIPELINE_FILE)
            if self.model_dir is not None and storage.exists(written):
                source = str(stack.enter_context(storage.local_file(written)))
            if source is None:
                raise ConfigError(["--pipeline_config_path or --model_dir: required, but missing"])
            return load_requested(
                JobRequest(
                    source=source,
                    overrides=self.overrides,
                    changes=Changes(
                        model_dir=self.model_dir, eval_input_path=joined(self.eval_input_path)
                    ),
                    purpose="evaluate",
                )
            )


def evaluate_checkpoint(request: EvalRequest) -> dict[str, dict[str, float]]:
    """Evaluate one checkpoint, and write its metrics into the folder of the model or of the run.

    Returns the metrics by run.
    """
    job = request.load()
    with contextlib.nullcontext() if request.quiet else console_logging():
        for notice in job.notices:
            logger.warning("%s", notice)
        return {run.name: _evaluate(job, run, request) for run in job.runs}


def _evaluate(job: Job, run: RunOptions, request: EvalRequest) -> dict[str, float]:
    if job.folder is None:
        path = LOGS / f"{job.workspace.name}.{run.name}"
        target = str(path)
    else:
        path = run_folder_of(job.folder).path
        target = job.folder
    url = _checkpoint(run, path, request.checkpoint)
    if run.evaluation is not None:  # of a training runner, whose logs and id are in that folder
        path /= EVAL
    elif job.folder is not None:
        path /= run.name
    folder = RunFolder(path=path)
    warm_start = run.warm_start.model_copy(update={"url": url})
    metrics = MetricsObserver()
    run_process(
        run.model_copy(update={"warm_start": warm_start}),
        Place(),
        folder=folder,
        resume=False,
        observers=(metrics,),
        quiet=request.quiet,
    )
    step = progress_in(open_checkpoint(url)).step
    result = storage.join(target, request.result_name)
    values = metrics.values()
    for name, value in sorted(write_result(result, values, step=step).items()):
        logger.info("%s = %.6g", name, value)
    logger.info("written to %s", result)
    return values


def _checkpoint(run: RunOptions, run_folder: Path, given: str | None) -> str:
    """Return the checkpoint to evaluate: the given one, or the newest that the job names.

    Of a training runner that is one it has saved, not the one it started from.
    """
    if given is not None:
        return url_of(open_newest(given))
    folders = [text.replace("{folder}", str(run_folder)) for text in run.resume.folders]
    if run.resume.prefix is not None:
        return url_of(open_newest(folders[0], prefix=run.resume.prefix))
    if run.warm_start.url is not None and run.evaluation is None:
        return checkpoints_below(run.warm_start.url)[-1]
    found = [url for one in folders if storage.exists(one) for url in published_below(one)]
    if not found:
        raise CheckpointError(f"no checkpoint in {', '.join(folders)}; give --checkpoint_path")
    return max(found, key=lambda url: progress_in(open_checkpoint(url)).step)


class MetricsObserver(QuietObserver):
    """Collects the metrics of an evaluation."""

    def __init__(self) -> None:
        self._passes: list[PassDone] = []

    def step(self, info: StepInfo) -> None:
        """Ignore steps."""

    def interval(self, interval: Interval) -> None:
        """Ignore intervals."""

    def pass_done(self, done: PassDone) -> None:
        """Collect the metrics of a pass."""
        self._passes.append(done)

    def saved(self, what: str, url: str, *, epoch: int) -> None:
        """Ignore what was saved."""

    def values(self) -> dict[str, float]:
        """Return the metrics; of several phases, with the phase before the name."""
        if len(self._passes) == 1:
            return dict(self._passes[0].metrics)
        return {f"{p.phase}/{name}": v for p in self._passes for name, v in p.metrics.items()}
