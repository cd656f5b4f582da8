"""The manifest of an inference model; docs/formats/inference.md has the format. No torch."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from fleetrec.checkpoint.folder import FORMAT_VERSIONS, Folder, open_folder
from fleetrec.checkpoint.staging import MANIFEST
from fleetrec.config.input_rules import InputRules
from fleetrec.config.options import Options
from fleetrec.config.rules import RowType
from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError
from fleetrec.embedding.layout import Combiner

KIND: Literal["inference model"] = "inference model"
MODEL = "model"  # the name of the graph of a whole model
Content = Literal["all", "changes"]
IndexType = Literal["none", "exact", "ivf", "hnsw"]


class FeedEntry(Options):
    """An input of a model: ids, or numbers of a ``shape`` per sample."""

    name: str
    kind: Literal["dense", "ids"]
    shape: tuple[int, ...] | None = None


class PooledEntry(Options):
    """A feature whose rows become one vector."""

    feature: str
    table: str
    combiner: Combiner


class SequenceEntry(Options):
    """A feature whose rows stay apart; names of two inputs of the graph."""

    input: str
    lengths: str
    feature: str
    table: str
    max_length: int | None


class GroupEntry(Options):
    """All embedded features of one width; ``input`` are the pooled ones side by side."""

    input: str
    dim: int
    features: tuple[PooledEntry, ...]
    sequences: tuple[SequenceEntry, ...]


class GraphEntry(Options):
    """A part of the dense network, its inputs, and how they are looked up."""

    name: str
    file: str
    feeds: tuple[FeedEntry, ...]
    fetches: tuple[str, ...]
    groups: tuple[GroupEntry, ...]


class TableEntry(Options):
    """The rows of a table: all of them, or in a delta what has changed."""

    dim: int = Field(gt=0)
    row_type: RowType
    hashed_into: int | None
    content: Content
    num_rows: int
    num_removed: int
    rows: tuple[str, ...]
    removed: tuple[str, ...]
    scores: tuple[str, ...] = ()


class VersionEntry(Options):
    """The place of a model in the order of publication; ``key`` is the id of its base."""

    id: int
    key: int
    day: str = ""


class ParentEntry(Options):
    """The model that a delta applies to."""

    id: int
    key: int
    fingerprint: str


class SourceEntry(Options):
    """The checkpoint that a model was made of: its run, and the fingerprints of its tables."""

    run_id: str
    tables: dict[str, str]


class ItemsEntry(Options):
    """The items that retrieval answers with."""

    num_items: int = Field(gt=0)
    dim: int = Field(gt=0)
    id_column: str
    vectors: str  # the file
    index: str | None  # the file; None: there is no index, all vectors are compared
    index_type: IndexType


class ModelManifest(Options):
    """What an inference model consists of; a base may have rules for raw columns."""

    kind: Literal["inference model"] = KIND
    type: Literal["base", "delta"]
    version: VersionEntry | None = None
    fingerprint: str = ""
    parent: ParentEntry | None = None
    source: SourceEntry | None = None
    graphs: tuple[GraphEntry, ...]
    tables: dict[str, TableEntry]
    input: InputRules | None = None
    items: ItemsEntry | None = None

    @property
    def name(self) -> str:
        """Return which model this is, for messages."""
        if self.version is None:
            return f"fingerprint {self.fingerprint}"
        return f"id {self.version.id}, fingerprint {self.fingerprint}"

    def with_fingerprint(self, files: Mapping[str, Mapping[str, Any]]) -> "ModelManifest":
        """Return the manifest of a model that consists of ``files``."""
        return self.model_copy(update={"fingerprint": _fingerprint(self.to_plain(), files)})

    def graph(self, name: str = MODEL) -> GraphEntry:
        """Return a graph; raises KeyError."""
        return {graph.name: graph for graph in self.graphs}[name]

    @property
    def towers(self) -> tuple[str, ...]:
        """Return the names of the graphs of towers."""
        return tuple(graph.name for graph in self.graphs if graph.name != MODEL)


def open_model(url: str | Path) -> tuple[Folder, ModelManifest]:
    """Read and check the manifest of an inference model."""
    folder = open_folder(url, kind=KIND)
    where = storage.shown(storage.join(folder.url, MANIFEST))
    try:
        manifest = ModelManifest.model_validate(folder.meta)
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        raise CheckpointError(f"{where}: damaged: {place}: {error.errors()[0]['msg']}") from error
    if _fingerprint(dict(folder.meta), folder.files) != manifest.fingerprint:
        raise CheckpointError(f"{where}: damaged: its fingerprint does not match its content")
    if (manifest.type == "delta") != (manifest.parent is not None):
        raise CheckpointError(f"{where}: damaged: a delta has a parent, and a base has none")
    names = [graph.name for graph in manifest.graphs]
    if names[:1] != [MODEL] or len(set(names)) != len(names):
        raise CheckpointError(f"{where}: expected the graph {MODEL!r} and towers, found {names}")
    return folder, manifest


def _fingerprint(meta: Mapping[str, Any], files: Mapping[str, Mapping[str, Any]]) -> str:
    covered = {"format_version": FORMAT_VERSIONS[KIND], **meta, "files": files}
    covered.pop("fingerprint", None)
    text = json.dumps(covered, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
