"""``fleetrec export``: an inference model of a checkpoint."""

import dataclasses
import logging
import time
from collections.abc import Sequence
from typing import get_args

from fleetrec.checkpoint.folder import published_kind
from fleetrec.checkpoint.staging import delete_folder
from fleetrec.cli.items import ItemsRequest, item_writer
from fleetrec.cli.logs import console_logging
from fleetrec.cli.trained import open_trained, run_of
from fleetrec.config.load import PIPELINE_FILE
from fleetrec.config.rules import RowType
from fleetrec.core import storage
from fleetrec.core.errors import ConfigError
from fleetrec.export.assets import read_assets
from fleetrec.export.manifest import KIND
from fleetrec.train.checkpoint_export import export_checkpoint

logger = logging.getLogger(__name__)

ROW_TYPES: tuple[str, ...] = get_args(RowType)
DONE_TEXT = b"ExportDone"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportRequest:
    """The arguments of the command; ``refused`` are groups of flags that are not supported."""

    checkpoint: str | None
    out: str | None = None
    source: str | None = None
    export_dir: str | None = None
    model_dir: str | None = None
    asset_files: str | None = None
    clear_export: bool = False
    done_file: str | None = None
    rows: str | None = None
    fold_mib: int | None = None
    items: ItemsRequest | None = None
    overrides: Sequence[str] = ()
    refused: Sequence[str] = ()

    def check(self) -> None:
        """Raise ConfigError with all problems."""
        problems = [
            f"--{name}_*: rows are not exported to {name}: an inference model holds them in its "
            "own files, and Predictor loads them; leave these flags out"
            for name in self.refused
        ]
        if self.checkpoint is None and self.source is None:
            problems.append("export: expected a checkpoint, --checkpoint_path or --model_dir")
        if (self.out is None) == (self.export_dir is None):
            problems.append("export: expected a folder for the model, or --export_dir")
        if self.rows not in (None, *ROW_TYPES):
            problems.append(f"--rows: expected {', '.join(ROW_TYPES)}, got {self.rows!r}")
        if self.items is not None:
            problems += self.items.problems()
        if self.export_dir is None:
            for name, value in (
                ("clear_export", self.clear_export),
                ("export_done_file", self.done_file),
            ):
                problems += [f"--{name}: is for --export_dir"] if value else []
        if problems:
            raise ConfigError(problems)


def export_model(request: ExportRequest) -> None:
    """Export a checkpoint, then write the done file."""
    request.check()
    with console_logging():
        checkpoint = open_trained(request.checkpoint or _model_dir(request))
        run = run_of(
            checkpoint,
            request.source,
            model_dir=request.model_dir,
            overrides=request.overrides,
        )
        changes = {"rows": request.rows, "fold_mib": request.fold_mib}
        given = {name: value for name, value in changes.items() if value is not None}
        run = run.model_copy(update={"inference": run.inference.model_copy(update=given)})
        assets = _assets(request)
        target = request.out
        if request.export_dir is not None:
            if request.clear_export:
                _clear(request.export_dir)
            target = _new_folder(request.export_dir)
        assert target is not None, "checked"
        items = None if request.items is None else item_writer(request.items, run)
        export_checkpoint(checkpoint, run, target, assets=assets, items=items)
        if request.export_dir is not None and request.done_file is not None:
            url = storage.join(request.export_dir, request.done_file)
            storage.write_bytes(url, DONE_TEXT)


def _model_dir(request: ExportRequest) -> str:
    """Return the model folder of a pipeline, where its checkpoints are."""
    from fleetrec.cli.job import load_job

    job = load_job(request.source or "", overrides=request.overrides)
    if job.folder is None:
        raise ConfigError([f"{request.source}: has no model_dir; name the checkpoint"])
    return job.folder


def _assets(request: ExportRequest) -> dict[str, bytes]:
    """Return the files to add by name; the pipeline is one of them."""
    given = filter(None, (request.asset_files or "").split(","))
    found = read_assets(given, option="--asset_files")
    if request.export_dir is not None:
        written = storage.join(request.model_dir or ".", PIPELINE_FILE)
        if request.model_dir is not None and storage.exists(written):
            found.setdefault(PIPELINE_FILE, storage.read_bytes(written))
        elif request.source is not None and storage.exists(request.source):
            found.setdefault(PIPELINE_FILE, storage.read_bytes(request.source))
    return found


def _clear(url: str) -> None:
    """Delete earlier models; other files stay."""
    if not storage.exists(url):
        return
    for name in storage.list_names(url):
        if name.isdecimal() and published_kind(storage.join(url, name)) == KIND:
            delete_folder(storage.join(url, name))


def _new_folder(url: str) -> str:
    """Return a folder that is named by the time, as EasyRec has it."""
    seconds = int(time.time())
    while storage.exists(storage.join(url, str(seconds))):
        seconds += 1
    return storage.join(url, str(seconds))
