"""The options of the run that has saved a checkpoint, read from its manifest."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fleetrec.checkpoint.folder import Folder
from fleetrec.config.job import RunOptions
from fleetrec.core.errors import CheckpointError, ModelError
from fleetrec.models.load import model_options


def stored_run(checkpoint: Folder) -> RunOptions:
    """Return the options; the code of the model is loaded from where it was."""
    plain = checkpoint.meta.get("config")
    if not isinstance(plain, Mapping):
        raise CheckpointError(f"{checkpoint.name}: does not have the job of its run; give it by -m")
    try:
        phases = [_phase(phase) for phase in plain["phases"]]
        return RunOptions.model_validate({**plain, "phases": phases})
    except ModelError as error:
        raise CheckpointError(
            f"{checkpoint.name}: {error}; if the code of the model was moved, give the job by -m"
        ) from error
    except (KeyError, TypeError, ValidationError) as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(
            f"{checkpoint.name}: the job of its run cannot be read, give it by -m: {reason}"
        ) from error


def to_inference(run: RunOptions) -> RunOptions:
    """Return a run that only evaluates, in one process."""
    return run.model_copy(
        update={
            "kind": "infer",
            "engine": "single",
            "online": None,
            "evaluation": None,
            "rules": (),
            "dump_path": None,
        }
    )


def _phase(plain: Mapping[str, Any]) -> dict[str, Any]:
    options = model_options(Path(plain["model_path"]))
    return {**plain, "model": options.model_validate(plain["model"])}
