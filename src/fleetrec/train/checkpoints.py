"""Find, open and read checkpoints."""

import re
from collections.abc import Mapping
from typing import Any

from fleetrec.checkpoint.folder import Folder, is_published, open_folder
from fleetrec.checkpoint.tables import stored_tables
from fleetrec.checkpoint.tensors import read_tensors
from fleetrec.config.job import PhaseOptions
from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError
from fleetrec.core.progress import Progress
from fleetrec.parallel.state import SavedModel
from fleetrec.train.delta_chain import DAY
from fleetrec.train.phase import Phase

DAY_CHECKPOINT = re.compile(r"\d+|stop-\d+")  # by pass of the day, or by step


def published_below(url: str) -> list[str]:
    """Return the published folders in a folder, by name."""
    names = [name for name in storage.list_names(url) if not name.startswith(".")]
    return [child for child in (storage.join(url, name) for name in names) if is_published(child)]


def day_folders(url: str) -> list[str]:
    """Return the folders of days such as 20261118 in a folder, the last day first."""
    days = [name for name in storage.list_names(url) if DAY.fullmatch(name)]
    return [storage.join(url, day) for day in sorted(days, reverse=True)]


def day_checkpoints(url: str) -> list[str]:
    """Return the checkpoints in the folder of a day, in no order."""
    names = [name for name in storage.list_names(url) if DAY_CHECKPOINT.fullmatch(name)]
    return [child for child in (storage.join(url, name) for name in names) if is_published(child)]


def step_checkpoints(url: str, *, prefix: str) -> list[str]:
    """Return the checkpoints ``<prefix><step>`` of a folder, those of later steps first."""
    steps = {
        int(name.removeprefix(prefix)): name
        for name in storage.list_names(url)
        if name.startswith(prefix) and name.removeprefix(prefix).isdecimal()
    }
    found = [storage.join(url, name) for _, name in sorted(steps.items(), reverse=True)]
    return [child for child in found if is_published(child)]


def open_checkpoint(url: str) -> Folder:
    """Open a checkpoint; the error for a folder of checkpoints names the newest."""
    if not is_published(url) and published_below(url):
        newest = checkpoints_below(url)[-1]
        raise CheckpointError(f"{url}: holds several checkpoints; did you mean {newest}?")
    return open_folder(url, kind="checkpoint")


def open_newest(url: str, *, prefix: str = "model.ckpt-") -> Folder:
    """Open a checkpoint, or the one of the highest step in a folder."""
    if not is_published(url) and storage.exists(url):
        found = step_checkpoints(url, prefix=prefix)
        if not found:
            raise CheckpointError(f"{url}: holds no checkpoint {prefix}<step>")
        url = found[0]
    return open_folder(url, kind="checkpoint")


def checkpoints_below(url: str) -> list[str]:
    """Return one checkpoint, or those in a folder: epochs in numeric order, else by name."""
    if is_published(url):
        return [url]
    if not storage.exists(url):
        raise CheckpointError(f"{url}: no such checkpoint")
    found = published_below(url)
    epochs = [child for child in found if storage.name_of(child).isdecimal()]
    if epochs:
        return sorted(epochs, key=lambda child: int(storage.name_of(child)))
    if not found:
        raise CheckpointError(f"{url}: neither a checkpoint nor a folder of checkpoints")
    return found


def read_phase(checkpoint: Folder, phase: str) -> SavedModel:
    """Read the tensors of one phase of a checkpoint, and find its tables."""
    return SavedModel(
        tensors=read_tensors(checkpoint, phase), tables=stored_tables(checkpoint, phase)
    )


def matching_phase(checkpoint: Folder, phase: Phase) -> str:
    """Return the phase of a checkpoint with the weights for ``phase``."""
    return matching_part(checkpoint, phase.options)


def matching_part(checkpoint: Folder, phase: PhaseOptions) -> str:
    """Return the phase of a checkpoint with the weights for the model of ``phase``.

    That is the one of the same name, else of the same model, else the only one: an inference phase
    usually has another name than the training phase that wrote the checkpoint.
    """
    models: Mapping[str, Any] = checkpoint.meta.get("models", {})
    phases = checkpoint.parts()
    if phase.name in phases:
        return phase.name
    same = [name for name in phases if models.get(name) == model_name(phase)]
    for candidates in (same, phases):
        if len(candidates) == 1:
            return candidates[0]
    raise CheckpointError(
        f"{checkpoint.name}: holds the phases {', '.join(phases)}; none of them is "
        f"{phase.name!r}, and none or several are of the same model"
    )


def model_name(options: PhaseOptions) -> str:
    """Return the last two parts of the model's path, which survive a move of the workspace."""
    return "/".join(options.model_path.parts[-2:])


def progress_in(checkpoint: Folder) -> Progress:
    """Return the progress at which a checkpoint was saved; older ones call it position."""
    meta = checkpoint.meta
    try:
        return Progress.from_dict(meta["progress"] if "progress" in meta else meta["position"])
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{checkpoint.name}: damaged: it has no progress") from error


def worker_progress_in(checkpoint: Folder) -> tuple[Progress, ...]:
    """Return the progress of every worker; empty if all share one."""
    meta = checkpoint.meta
    found = meta.get("worker_progress", meta.get("positions", ()))
    return tuple(map(Progress.from_dict, found))


def url_of(checkpoint: Folder) -> str:
    """Return where a checkpoint is."""
    return checkpoint.url
