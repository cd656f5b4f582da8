"""Go on with checkpoints that are numbered by steps, in the same data or in new data."""

import logging
from collections.abc import Sequence

from fleetrec.checkpoint.folder import Folder, is_published, open_folder, published_names
from fleetrec.config.job import RollingOptions, RunOptions
from fleetrec.core.errors import CheckpointError, ConfigError, DataError, MismatchError
from fleetrec.core.storage import exists, join
from fleetrec.train.phase import PhaseRun, read_phase
from fleetrec.train.position import Position
from fleetrec.train.resume import ResumePoint, take_up

logger = logging.getLogger(__name__)


def rolling_checkpoints(folder: str, *, prefix: str) -> list[str]:
    """Return the published checkpoints of a folder, those of later steps first."""
    steps = [
        int(name.removeprefix(prefix))
        for name in published_names(folder)
        if name.startswith(prefix) and name.removeprefix(prefix).isdecimal()
    ]
    return [join(folder, f"{prefix}{step}") for step in sorted(steps, reverse=True)]


def open_newest(path: str, *, prefix: str = "model.ckpt-") -> Folder:
    """Open a checkpoint, or the newest of a folder."""
    if exists(path) and not is_published(path):
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
            point.folder.url,
        )
        return Position(step=point.position.step)
    logger.info("goes on exactly where %s was written", point.folder.url)
    return point.position
