"""Start a run with weights of an earlier one."""

import logging
from collections.abc import Mapping
from typing import Any

from fleetrec.checkpoint.folder import Folder
from fleetrec.config.problems import hint
from fleetrec.config.rules import WarmStartOptions
from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError, ConfigError
from fleetrec.parallel.state import SavedModel
from fleetrec.train.checkpoints import matching_phase, open_checkpoint, open_newest, read_phase
from fleetrec.train.phase import Phase

logger = logging.getLogger(__name__)


def open_warm_start(options: WarmStartOptions) -> Folder | None:
    """Open the checkpoint that a run starts with, if there is one."""
    if options.url is None:
        return None
    if options.newest_prefix is None:
        return open_checkpoint(options.url)
    return open_newest(options.url, prefix=options.newest_prefix)


def load_warm_start(phase: Phase, checkpoint: Folder, options: WarmStartOptions) -> str:
    """Load weights for a phase; returns what was loaded, in words."""
    saved = read_phase(checkpoint, matching_phase(checkpoint, phase))
    if options.requires_all and not options.variables:
        phase.state.load(saved, exact=False)
        return "all variables"
    known = phase.state.variables()
    unknown = sorted(set(options.variables) - set(known))
    if unknown:
        raise ConfigError(
            [f"load_vars: the model has no {', '.join(unknown)}; known: {', '.join(known)}"]
        )
    source = renamed(saved, checkpoint, phase, options.renames)
    wanted = options.variables or tuple(known)
    if options.renames:
        listed = _read_renames(options.renames)
        wanted = tuple(name for name in wanted if phase.model.variable_name(name) in listed)
    loaded = phase.state.load_variables(source, wanted)
    missing = [name for name in wanted if name not in loaded]
    if missing and options.variables:
        raise CheckpointError(f"{checkpoint.name}: has no fitting {', '.join(missing)}")
    if missing:
        shown = ", ".join(phase.model.variable_name(name) for name in missing)
        logger.warning("not in %s, or of another shape: %s", checkpoint.name, shown)
    return f"{len(loaded)} of {len(wanted)} variables: {', '.join(loaded) or 'none fits'}"


def renamed(saved: SavedModel, checkpoint: Folder, phase: Phase, renames: str | None) -> SavedModel:
    """Return a saved model under the names of this one, matched by the names that users see.

    ``renames`` is a file of names here and in the checkpoint; others are not loaded.
    """
    here = {phase.model.variable_name(name): name for name in phase.state.variables()}
    there = _read_renames(renames) if renames else {}
    unknown = [f"{name!r}{hint(name, here)}" for name in there if name not in here]
    if unknown:
        raise ConfigError(
            [f"fine_tune_ckpt_var_map: {renames}: the model has no {one}" for one in unknown]
        )
    names: Mapping[str, Any] = checkpoint.meta.get("names", {}).get(
        matching_phase(checkpoint, phase), {}
    )
    weights = saved.tensors.get("model", {})
    of_saved = {str(names.get(name, name)): name for name in (*weights, *saved.tables)}
    wanted = {
        own: of_saved.get(there.get(name, name), "")
        for name, own in here.items()
        if not there or name in there
    }
    return SavedModel(
        tensors={"model": {own: weights[old] for own, old in wanted.items() if old in weights}},
        tables={own: saved.tables[old] for own, old in wanted.items() if old in saved.tables},
    )


def _read_renames(url: str) -> dict[str, str]:
    try:
        lines = storage.read_bytes(url).decode("utf-8").splitlines()
    except (CheckpointError, UnicodeDecodeError) as error:
        raise ConfigError([f"fine_tune_ckpt_var_map: {url}: cannot be read: {error}"]) from error
    renames: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if words and len(words) != 2:
            raise ConfigError(
                [f"{url}:{number}: expected a name here and one in the checkpoint, got {line!r}"]
            )
        renames |= {words[0]: words[1]} if words else {}
    return renames
