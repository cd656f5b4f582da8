"""Go on with checkpoints that are numbered by steps, in the same data or in new data."""

import logging
from collections.abc import Sequence
from pathlib import Path

from fleetrec.checkpoint.folder import Folder, is_published, open_folder
from fleetrec.config.job import RollingOptions, RunOptions
from fleetrec.core.errors import CheckpointError, ConfigError, DataError, MismatchError
from fleetrec.train.phase import PhaseRun, read_phase
from fleetrec.train.position import Position
from fleetrec.train.resume import ResumePoint, take_up

logger = logging.getLogger(__name__)


def rolling_checkpoints(folder: Path, *, prefix: str) -> list[Path]:
    """Return the published checkpoints of a folder, those of later steps first."""
    if not folder.is_dir():
        return []
    found = [
        path
        for path in folder.iterdir()
        if path.name.startswith(prefix) and path.name.removeprefix(prefix).isdecimal()
    ]
    published = filter(is_published, found)
    return sorted(published, key=lambda path: int(path.name.removeprefix(prefix)), reverse=True)


def open_newest(path: Path, *, prefix: str = "model.ckpt-") -> Folder:
    """Open a checkpoint, or the newest of a folder."""
    if path.is_dir() and not is_published(path):
        found = rolling_checkpoints(path, prefix=prefix)
        if not found:
            raise CheckpointError(f"{path}: holds no checkpoint {prefix}<step>")
        path = found[0]
    return open_folder(path, kind="checkpoint")


def continue_run(
    run: RunOptions, rolling: RollingOptions, phases: Sequence[PhaseRun]
) -> Position | None:
    """Take up the newest sound checkpoint; returns where to go on, or None if there is none."""
    for path in rolling_checkpoints(rolling.path, prefix=rolling.prefix):
        try:
            folder = open_folder(path, kind="checkpoint")
            position = Position.from_dict(folder.meta["position"])
            return _take_up(ResumePoint(folder=folder, position=position), run, phases)
        except MismatchError:  # older checkpoints do not fit either
            raise
        except CheckpointError as error:
            logger.warning("passed over: %s: %s", path, error)
    return None


def _take_up(point: ResumePoint, run: RunOptions, phases: Sequence[PhaseRun]) -> Position:
    """Go on in the data where the checkpoint stands; if anything changed, from its beginning."""
    try:
        take_up(point, run, phases)
    except (ConfigError, DataError):  # nothing was loaded yet
        for phase in phases:
            saved = read_phase(point.folder, phase.options.name)
            phase.strategy.load_tables(saved.tables)
            phase.strategy.load_state(saved.tensors)
        logger.info(
            "goes on with the weights of %s, from the beginning of the data: pipeline or data have "
            "changed since",
            point.folder.path,
        )
        return Position(step=point.position.step)
    logger.info("goes on exactly where %s was written", point.folder.path)
    return point.position
