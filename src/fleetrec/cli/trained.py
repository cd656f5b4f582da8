"""Finds the checkpoint that a command names, and the job that it was trained with."""

import contextlib
from collections.abc import Sequence

from fleetrec.checkpoint.folder import Folder, is_published, open_folder
from fleetrec.cli.job import load_requested
from fleetrec.config.job import RunOptions
from fleetrec.config.load import PIPELINE_FILE, JobRequest, dialect_of
from fleetrec.config.pipeline_dialect.decode import Changes
from fleetrec.config.yaml_dialect.locate import locate_job
from fleetrec.core import storage
from fleetrec.core.errors import ConfigError
from fleetrec.train.checkpoints import checkpoints_below, step_checkpoints
from fleetrec.train.stored_run import stored_run


def open_trained(url: str) -> Folder:
    """Open a checkpoint, or the newest in a folder."""
    if not is_published(url):
        steps = step_checkpoints(url, prefix="model.ckpt-") if storage.exists(url) else []
        url = steps[0] if steps else checkpoints_below(url)[-1]
    return open_folder(url, kind="checkpoint")


def run_of(
    checkpoint: Folder, source: str | None, *, model_dir: str | None, overrides: Sequence[str]
) -> RunOptions:
    """Return the run of a job, or the one that has saved the checkpoint.

    The pipeline in a model folder goes before one that is given, as EasyRec has it.
    """
    with contextlib.ExitStack() as stack:
        written = storage.join(model_dir or ".", PIPELINE_FILE)
        if model_dir is not None and storage.exists(written):
            source = str(stack.enter_context(storage.local_file(written)))
        if source is None and overrides:
            raise ConfigError(["-o: changes keys of a job; give the job by -m"])
        if source is None:
            return stored_run(checkpoint)
        is_pipeline = dialect_of(locate_job(source).path) == "pipeline"
        changes = Changes(model_dir=model_dir if is_pipeline else None)
        job = load_requested(JobRequest(source=source, overrides=overrides, changes=changes))
    trains = [run for run in job.runs if run.kind == "train"]
    return (trains or list(job.runs))[-1]
