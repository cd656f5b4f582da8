"""Find the checkpoint from which an interrupted run goes on."""

import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fleetrec.checkpoint.folder import Folder, is_published, open_folder, published_names
from fleetrec.checkpoint.tensors import read_file
from fleetrec.config.job import RunOptions
from fleetrec.core.errors import CheckpointError, ConfigError, DataError
from fleetrec.core.storage import exists, join
from fleetrec.train.phase import PhaseRun, load_random_state, read_phase
from fleetrec.train.position import Position
from fleetrec.train.run_folder import RunFolder

logger = logging.getLogger(__name__)

RANDOM = "random"  # beside the phases, in no folder: a phase may have any name


@dataclasses.dataclass(frozen=True, kw_only=True)
class ResumePoint:
    """A checkpoint of this very run and the position it was taken at.

    Within an epoch of several workers each has a position of its own.
    """

    folder: Folder
    position: Position
    positions: tuple[Position, ...] = ()

    def fits(self, num_workers: int) -> bool:
        """Tell whether so many workers can go on from here."""
        return not self.positions or len(self.positions) == num_workers


def resume_points(run: RunOptions, folder: RunFolder) -> Iterator[ResumePoint]:
    """Yield the checkpoints of the last run, newest first; those of other runs do not count."""
    run_id = folder.run_id()
    if run_id is None:
        return
    places = (run.save.checkpoint_path, run.save.step_path, str(folder.checkpoints))
    found: list[ResumePoint] = []
    for place in {place for place in places if place is not None}:
        for name in published_names(place):
            try:
                checkpoint = open_folder(join(place, name), kind="checkpoint")
            except CheckpointError as error:
                logger.warning("passed over: %s", error)
                continue
            if checkpoint.meta.get("run_id") == run_id:
                found.append(
                    ResumePoint(
                        folder=checkpoint,
                        position=Position.from_dict(checkpoint.meta["position"]),
                        positions=tuple(
                            map(Position.from_dict, checkpoint.meta.get("positions", ()))
                        ),
                    )
                )
    yield from sorted(found, key=lambda p: (p.position.step, p.position.epoch), reverse=True)


def take_up(point: ResumePoint, run: RunOptions, phases: Sequence[PhaseRun]) -> None:
    """Load everything; the job and the data must be those of the interrupted run."""
    _check_same_job(point.folder, run)
    fingerprints = {phase.options.name: phase.data_fingerprint() for phase in phases}
    if point.folder.meta["data"] != fingerprints:
        raise DataError(
            f"--resume: the data files have changed since {point.folder.url} was written (names "
            "or sizes); start without --resume, with init_model_path to keep the weights"
        )
    saved = [read_phase(point.folder, phase.options.name) for phase in phases]
    random = read_file(point.folder, RANDOM)
    try:
        for phase, its in zip(phases, saved, strict=True):
            phase.strategy.load_tables(its.tables)
    except CheckpointError:  # an older checkpoint or a new start must find nothing of this one
        for phase in phases:
            phase.strategy.clear_tables()
        raise
    for phase, its in zip(phases, saved, strict=True):
        phase.load_state(its.tensors)
    load_random_state(random)


def what_matters(run: RunOptions) -> dict[str, Any]:
    """Return the part of a run's options that its weights depend on."""
    plain = run.to_plain()
    phases = [
        {
            "name": phase["name"],
            "model": phase["model"],
            "optimizer": phase["optimizer"],
            "dataset": {k: v for k, v in phase["dataset"].items() if k not in _FREE_IN_DATASET},
        }
        for phase in plain["phases"]
    ]
    frozen = plain["warm_start"]["frozen"]
    return {"seed": plain["seed"], "frozen": frozen, "phases": phases}


_FREE_IN_DATASET = ("data_path", "more_paths", "thread_num", "kind", "name")  # a folder may move


def _check_same_job(checkpoint: Folder, run: RunOptions) -> None:
    before = dict(_leaves(checkpoint.meta["job"], ""))
    now = dict(_leaves(what_matters(run), ""))
    changed = sorted(k for k in before.keys() | now.keys() if before.get(k) != now.get(k))
    if changed:
        raise ConfigError(
            [
                f"--resume: {key} was {before.get(key)!r} when {checkpoint.url} was written, "
                f"now it is {now.get(key)!r}"
                for key in changed
            ]
        )


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{path}[{index}]")
    else:
        yield path, value


def checkpoint_folders(path: str) -> list[str]:
    """Return one checkpoint, or those below a folder: epochs in numeric order, else by name."""
    if is_published(path):
        return [path]
    if not exists(path):
        raise CheckpointError(f"{path}: no such checkpoint")
    found = published_names(path)
    epochs = [name for name in found if name.isdecimal()]
    if not found:
        raise CheckpointError(f"{path}: neither a checkpoint nor a folder of checkpoints")
    return [join(path, name) for name in sorted(epochs, key=int) or found]


def open_one(path: str) -> Folder:
    """Open a checkpoint; a folder of them is answered with the newest to choose."""
    if exists(path) and not is_published(path):
        newest = checkpoint_folders(path)[-1]
        raise CheckpointError(f"{path}: holds several checkpoints; did you mean {newest}?")
    return open_folder(path, kind="checkpoint")
