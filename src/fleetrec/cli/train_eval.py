"""``fleetrec train-eval`` and ``fleetrec eval``: a pipeline, from its file to its results."""

import contextlib
import dataclasses
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from fleetrec._native import keep_freed_memory
from fleetrec.cli.logs import console_logging
from fleetrec.cli.rank import be_rank
from fleetrec.cli.run import check_engines, run_watched
from fleetrec.cli.run_cluster import run_cluster
from fleetrec.cli.take_part import take_part
from fleetrec.config.job import RunOptions
from fleetrec.config.pipeline_dialect.decode import (
    ONE_PROCESS,
    Changes,
    DecodedPipeline,
    decode_pipeline,
)
from fleetrec.config.pipeline_dialect.edit import edits_of_arguments, edits_of_json
from fleetrec.core import storage
from fleetrec.core.env import (
    has_rank,
    has_topology,
    read_processes,
    read_rank,
    read_status_path,
    read_topology,
)
from fleetrec.core.errors import ConfigError
from fleetrec.core.processes import Processes
from fleetrec.models.pipeline_classes import pipeline_classes
from fleetrec.train.continuing import open_newest, rolling_checkpoints
from fleetrec.train.events import Observer, Observers
from fleetrec.train.judge import Judge, result_of
from fleetrec.train.milestones import write_result
from fleetrec.train.observers import StepLogObserver
from fleetrec.train.phase import build_phase, part_for, read_phase
from fleetrec.train.run_folder import run_folder_of
from fleetrec.train.summaries import open_summaries

logger = logging.getLogger(__name__)

PIPELINE = "pipeline.config"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """What was typed."""

    path: Path | None
    model_dir: str | None = None
    train_input_path: Sequence[str] | None = None
    eval_input_path: Sequence[str] | None = None
    fine_tune_checkpoint: str | None = None
    edit_config_json: str | None = None
    arguments: Sequence[str] = ()
    seed: int = 0
    num_workers: int | None = None
    num_servers: int | None = None

    def changes(self) -> Changes:
        """Return what the command line changes in the pipeline."""
        edits = edits_of_json(self.edit_config_json) if self.edit_config_json else []
        return Changes(
            model_dir=self.model_dir,
            train_input_path=_joined(self.train_input_path),
            eval_input_path=_joined(self.eval_input_path),
            fine_tune_checkpoint=self.fine_tune_checkpoint,
            edits=[*edits, *edits_of_arguments(list(self.arguments))],
        )

    def command(self, *, continue_train: bool) -> tuple[str, ...]:
        """Return the command that a process runs which takes part in the same training."""
        options: list[str] = []
        for name, value in (
            ("pipeline_config_path", self.path),
            ("model_dir", self.model_dir),
            ("fine_tune_checkpoint", self.fine_tune_checkpoint),
            ("edit_config_json", self.edit_config_json),
            ("seed", self.seed),
        ):
            options += [] if value is None else [f"--{name}", str(value)]
        for name, values in (
            ("train_input_path", self.train_input_path),
            ("eval_input_path", self.eval_input_path),
        ):
            options += [word for value in values or () for word in (f"--{name}", value)]
        options += ["--continue_train"] if continue_train else []
        return (sys.executable, "-m", "fleetrec.train_eval", *options, *self.arguments)

    def processes(self) -> Processes:
        """Return how many processes train: those that a launcher has started, or the asked for."""
        started = read_processes()
        if started is None:
            return Processes(num_workers=self.num_workers or 1, num_servers=self.num_servers)
        if self.num_workers is not None or self.num_servers is not None:
            raise ConfigError(
                [
                    "--num_workers and --num_servers: a launcher has started the processes, as "
                    "the environment says; leave them out"
                ]
            )
        return started


def train_and_evaluate(request: Request, *, continue_train: bool) -> None:
    """Train; the model folder holds the pipeline, checkpoints, curves and eval_result.txt."""
    if request.path is None:
        raise ConfigError(["--pipeline_config_path: required, but missing"])
    decoded = _decode(request, request.path, kind="train", processes=request.processes())
    (run,) = decoded.job.runs
    check_engines(decoded.job)
    if has_rank():
        _be_rank(run, decoded.model_dir, continue_train=continue_train)
        return
    if has_topology():
        _take_part(run, decoded.model_dir, continue_train=continue_train)
        return
    if not continue_train:
        _check_new(run, decoded.model_dir)
    keep_freed_memory()
    with console_logging():
        for notice in decoded.job.notices:
            logger.warning("%s", notice)
        storage.write_bytes(storage.join(decoded.model_dir, PIPELINE), decoded.text.encode())
        folder = run_folder_of(decoded.model_dir)
        if run.engine == "local_cluster":
            command = request.command(continue_train=continue_train)
            log_dir = folder.path / "logs"
            run_cluster(run, folder, command=command, resume=continue_train, log_dir=log_dir)
            return
        with open_summaries(folder.path, run) as summaries:
            watchers = (StepLogObserver(interval=run.print_interval), *summaries)
            run_watched(run, folder, resume=continue_train, watchers=watchers)


def _be_rank(run: RunOptions, model_dir: str, *, continue_train: bool) -> None:
    """Train as one of several ranks; the first of them looks after what is about all."""
    place = read_rank()
    keep_freed_memory()
    folder = run_folder_of(model_dir)
    with contextlib.ExitStack() as stack:
        stack.enter_context(console_logging())
        watchers: list[Observer] = [StepLogObserver(interval=run.print_interval)]
        if place.index == 0:
            watchers += stack.enter_context(open_summaries(folder.path, run))
        be_rank(
            run,
            folder,
            resume=continue_train,
            log_dir=folder.path / "logs",
            watchers=watchers,
            check=lambda: _check_new(run, model_dir),
        )


def _take_part(run: RunOptions, model_dir: str, *, continue_train: bool) -> None:
    """Be a server, or train as one of several workers."""
    topology = read_topology()
    is_supervised = read_status_path() is not None
    if is_supervised:  # the supervisor looks after what is about all
        run = run.model_copy(update={"engine": "local_cluster"})
    elif topology.role == "worker" and topology.index == 0 and not continue_train:
        _check_new(run, model_dir)
    keep_freed_memory()
    with console_logging():
        watchers = [StepLogObserver(interval=run.print_interval)]
        folder = run_folder_of(model_dir)
        take_part(run, folder, topology, resume=continue_train, watchers=watchers)


def _check_new(run: RunOptions, model_dir: str) -> None:
    assert run.save.rolling is not None
    found = rolling_checkpoints(model_dir, prefix=run.save.rolling.prefix)
    if found:
        raise ConfigError(
            [
                f"model_dir {model_dir} holds {storage.name_of(found[0])} of an earlier run; go on "
                "with --continue_train, or choose another folder with --model_dir"
            ]
        )


def evaluate_checkpoint(request: Request, *, checkpoint: str | None, result_name: str) -> None:
    """Judge one checkpoint and write the figures into the model folder."""
    with contextlib.ExitStack() as stack:
        path = request.path
        written = storage.join(request.model_dir or ".", PIPELINE)
        if request.model_dir is not None and storage.exists(written):
            path = stack.enter_context(storage.local_file(written))
        if path is None:
            raise ConfigError(["--pipeline_config_path or --model_dir: required, but missing"])
        decoded = _decode(request, path, kind="infer")
    (run,) = decoded.job.runs
    with console_logging():
        phase = build_phase(run.phases[0], run)
        folder = open_newest(checkpoint or decoded.model_dir)
        phase.strategy.load_weights(read_phase(folder, part_for(folder, phase)))
        assert run.evaluation is not None
        judge = Judge(run.evaluation, phase, seed=run.seed, shard=phase.shard)
        observer = Observers(StepLogObserver(interval=run.print_interval))
        figures = judge.report(observer, time.monotonic, checkpoint=storage.name_of(folder.url))
        result = result_of(figures, step=int(folder.meta["position"]["step"]))
        target = storage.join(decoded.model_dir, result_name)
        write_result(target, result)
        for name, value in sorted(result.items()):
            logger.info("%s = %.6g", name, value)
        logger.info("written to %s", target)


def _decode(
    request: Request,
    path: Path,
    *,
    kind: Literal["train", "infer"],
    processes: Processes = ONE_PROCESS,
) -> DecodedPipeline:
    return decode_pipeline(
        path,
        classes=pipeline_classes(),
        changes=request.changes(),
        kind=kind,
        seed=request.seed,
        processes=processes,
    )


def _joined(paths: Sequence[str] | None) -> str | None:
    return ",".join(paths) if paths else None
