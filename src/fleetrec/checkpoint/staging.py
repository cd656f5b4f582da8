"""A folder that is being written, and how it becomes visible in one step.

Local folders are written as a hidden sibling that is renamed. storage at URLs mostly has no
rename: there the files are in a unique folder below it, which the manifest names, and the manifest
is written last. docs/formats/checkpoint.md describes both.
"""

import contextlib
import dataclasses
import json
import logging
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from fleetrec.checkpoint.publish import make_hidden, put_in_place
from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError, FleetRecError
from fleetrec.core.fault_points import fault_point
from fleetrec.core.remote_files import upload

logger = logging.getLogger(__name__)

MANIFEST = "MANIFEST.json"
ROOT_KEY = "root"  # of the manifest: the folder of the files; missing: the folder of the manifest
_ROOT_NAME = re.compile(r"files-[0-9a-f]{16}")
_HIDDEN_NAME = re.compile(r"\.(.+)\.[^.]+")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """The files of a folder before it is published.

    Several processes may fill one staging at the same time: the one that created it sends ``url``
    to the others, which call ``Staging.open``. One of them publishes it when all are done.
    """

    url: str  # the files are written below
    target: str  # the folder to publish

    @classmethod
    def create(cls, target: str | Path) -> Self:
        """Begin to write the folder ``target``."""
        target = storage.to_url(target)
        if not storage.is_local(target):
            return cls(url=storage.join(target, f"files-{uuid.uuid4().hex[:16]}"), target=target)
        path = storage.local_path(target)
        with storage.storage_errors(target, doing="written"):
            # Other processes may have another working directory.
            return cls(url=str(make_hidden(path).absolute()), target=target)

    @classmethod
    def open(cls, url: str) -> Self:
        """Open a staging folder that another process has created."""
        parent, name = storage.parent_of(url), storage.name_of(url)
        if not storage.is_local(url):
            if _ROOT_NAME.fullmatch(name) is None:
                raise CheckpointError(f"{storage.shown(url)}: not a folder that is being written")
            return cls(url=url, target=parent)
        hidden = _HIDDEN_NAME.fullmatch(name)
        if hidden is None:
            raise CheckpointError(f"{url}: not a folder that is being written")
        if not storage.local_path(url).is_dir():
            raise CheckpointError(
                f"{url}: no such folder on this machine; processes on several machines need a "
                "shared folder, or a URL such as s3://bucket/folder"
            )
        return cls(url=url, target=storage.join(parent, hidden[1]))

    @property
    def root(self) -> str:
        """Return where the files will be, relative to the manifest."""
        return "." if storage.is_local(self.url) else storage.name_of(self.url)

    def folder(self, name: str = ".") -> contextlib.AbstractContextManager[Path]:
        """Yield a local folder; its files are under ``name`` in the staging when the block ends."""
        return writable_folder(storage.join(self.url, name))

    def publish(self, manifest: Mapping[str, Any]) -> None:
        """Write the manifest and make the folder visible, in place of one that is there."""
        rooted = dict(manifest) if self.root == "." else {**manifest, ROOT_KEY: self.root}
        text = json.dumps(rooted, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        if storage.is_local(self.url):
            _publish_local(storage.local_path(self.url), storage.local_path(self.target), text)
        else:
            fault_point("publish")
            storage.write_bytes(storage.join(self.target, MANIFEST), text.encode())
            self._delete_older_files()

    def discard(self) -> None:
        """Delete the files instead of publishing them."""
        storage.delete(self.url)

    def _delete_older_files(self) -> None:
        """Delete files of an older folder of this name or of a failed attempt."""
        try:
            for name in storage.list_names(self.target):
                if name not in (MANIFEST, self.root):
                    storage.delete(storage.join(self.target, name))
        except FleetRecError as error:  # the new folder is complete, and readers see no other
            logger.warning("files of an older attempt are left: %s", error)


@contextlib.contextmanager
def writable_folder(url: str) -> Iterator[Path]:
    """Yield a local folder; when the block ends, its files have been added below ``url``.

    It is ``url`` itself if that is local, else a temporary folder that is uploaded. Several
    processes may fill one folder at the same time.
    """
    if not storage.is_local(url):
        with tempfile.TemporaryDirectory(prefix="fleetrec-") as temporary:
            yield Path(temporary)
            with storage.storage_errors(url, doing="written"):
                upload(Path(temporary), url)
        return
    # An OSError is not translated: servers wait for room on a full disk.
    storage.local_path(url).mkdir(parents=True, exist_ok=True)
    yield storage.local_path(url)


def delete_folder(url: str) -> None:
    """Delete a published folder; a crash in between leaves nothing that looks published."""
    storage.delete(storage.join(url, MANIFEST))
    storage.delete(url)


def _publish_local(staging: Path, directory: Path, manifest: str) -> None:
    try:
        with storage.storage_errors(str(directory), doing="written"):
            (staging / MANIFEST).write_text(manifest, encoding="utf-8")
            put_in_place(staging, directory)
    finally:
        shutil.rmtree(staging, ignore_errors=True)  # what is left: our failure, or the old folder
