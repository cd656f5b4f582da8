"""Whether a new run may begin."""

from fleetrec.config.job import RunOptions
from fleetrec.core import storage
from fleetrec.core.errors import ConfigError
from fleetrec.parallel.group import Group
from fleetrec.parallel.on_chief import on_chief
from fleetrec.train.checkpoints import step_checkpoints


def check_new_run_together(run: RunOptions, group: Group, *, is_new: bool) -> None:
    """Refuse the run on every process of ``group`` if the chief finds such a folder.

    ``is_new`` matters on the chief only: it may be another process that was restarted.
    """

    def check() -> str:
        if is_new:
            check_new_run(run)
        return ""

    on_chief(group, check, key="new_run", pass_index=None)


def check_new_run(run: RunOptions) -> None:
    """Refuse to train into a folder that holds checkpoints of an earlier run.

    Only where checkpoints are found by their step: there old and new ones cannot be distinguished.
    """
    if run.kind != "train" or run.resume.prefix is None:
        return
    for folder in run.resume.folders:
        found = step_checkpoints(folder, prefix=run.resume.prefix)
        if found:
            raise ConfigError(
                [
                    f"model_dir {folder} holds {storage.name_of(found[0])} of an earlier run; "
                    f"resume with {run.resume.flag}, or choose another folder with --model_dir"
                ]
            )
