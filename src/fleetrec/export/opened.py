"""An inference model whose manifest has been read, or that is about to be published. No torch."""

import dataclasses
from pathlib import Path

from fleetrec.checkpoint.folder import Folder
from fleetrec.export.manifest import ModelManifest, open_model


@dataclasses.dataclass(frozen=True, kw_only=True)
class OpenModel:
    """The files of an inference model, and its manifest."""

    folder: Folder
    manifest: ModelManifest

    @classmethod
    def at(cls, url: str | Path) -> "OpenModel":
        """Read and check the manifest of a published model."""
        folder, manifest = open_model(url)
        return cls(folder=folder, manifest=manifest)
