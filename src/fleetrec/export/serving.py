"""Publishes serving models: inference models, whole or as deltas, made of published checkpoints.

A serving model is never ahead of the checkpoint that a run resumes from, and it is made by the same
code in every mode: only files are read, block by block. docs/inference.md describes how to use it.
"""

# Shape suffixes: N ids.

import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

import numpy as np
import numpy.typing as npt

from fleetrec.checkpoint.folder import Folder, is_published, open_folder
from fleetrec.checkpoint.tables import stored_tables
from fleetrec.checkpoint.tensors import read_file
from fleetrec.config.serving import ServingOptions
from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError
from fleetrec.core.event_time import SECONDS_PER_DAY
from fleetrec.core.fault_points import fault_point
from fleetrec.embedding.record import Chain, StoredTable
from fleetrec.embedding.snapshot import Columns, IdArray, changed_rows, live_rows
from fleetrec.embedding.table import TableConfig
from fleetrec.export.done_files import ModelDone, add_model, read_models
from fleetrec.export.increments import IncrementSender
from fleetrec.export.inference import InferenceModel, hashed_into
from fleetrec.export.manifest import (
    ModelManifest,
    ParentEntry,
    SourceEntry,
    TableEntry,
    VersionEntry,
    open_model,
)
from fleetrec.export.published_scores import PublishedScores, RowScores
from fleetrec.export.row_files import RowWriter

logger = logging.getLogger(__name__)

SCORE_ERROR = 1e-4  # of scores as float32


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServingRequest:
    """A serving model that is due.

    Args:
        url: Where the model goes.
        base_url: Where it goes if it becomes a base because there is none; empty: ``url``.
        kind: Base or delta. The first publication of a run without ``key`` is a base.
        id: Rises with every publication: event time in seconds, or the step.
        key: Of a delta, the id of its base; None: the newest base of the run. Of a base, its key;
            None: its id.
        day: The day of the data, for the manifest.
        event_time: When the checkpoint was cut, to leave out rows by age; None: ``id``.
        monitor: Metrics for the done file.
    """

    url: str
    base_url: str = ""
    kind: Literal["base", "delta"]
    id: int
    key: int | None = None
    day: str = ""
    event_time: int | None = None
    monitor: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def target(self, kind: Literal["base", "delta"]) -> str:
        """Return where the model goes if it becomes a base or a delta."""
        return self.base_url or self.url if (kind, self.kind) == ("base", "delta") else self.url


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Source:
    """The checkpoint that a model is made of."""

    folder: Folder
    tables: Mapping[str, StoredTable]

    @property
    def entry(self) -> SourceEntry:
        """The checkpoint in the manifest of a model."""
        fingerprints = {name: table.record.fingerprint for name, table in self.tables.items()}
        return SourceEntry(run_id=str(self.folder.meta.get("run_id", "")), tables=fingerprints)


class ServingPublisher:
    """Makes serving models of checkpoints, publishes them and notes them in done files.

    Args:
        model: The model; ``convert`` has been called, because that needs the main thread.
        phase: The phase of the checkpoints that has its weights.
        folder: Where the done files are, a path or a URL.
        options: Which rows go to serving.
        by_table: The same for single tables.
        sender: Sends deltas to a topic after they were published; None: they are not sent.
    """

    def __init__(
        self,
        model: InferenceModel,
        *,
        phase: str,
        folder: str,
        options: ServingOptions = ServingOptions(),  # noqa: B008 (frozen)
        by_table: Mapping[str, ServingOptions] = MappingProxyType({}),
        sender: IncrementSender | None = None,
    ) -> None:
        self._model = model
        self._phase = phase
        self._folder = storage.to_url(folder)
        self._options = options
        self._by_table = by_table
        self._sender = sender
        self._scores = PublishedScores(self._folder)

    @property
    def _has_thresholds(self) -> bool:
        every = (self._options, *self._by_table.values())
        return any(options.delta_threshold > 0 for options in every)

    def publish(self, checkpoint_url: str, request: ServingRequest) -> ModelManifest:
        """Publish a model of a published checkpoint, then add it to its done file.

        A model of the same run and id that is there already stays as it is. The changes of a delta
        are those since the last model that the run has published for the same base; if the chain of
        the checkpoint does not reach back to it, the delta holds whole tables.

        Returns:
            The manifest of the published model.
        """
        checkpoint = open_folder(checkpoint_url, kind="checkpoint")
        source = _Source(folder=checkpoint, tables=self._tables(checkpoint))
        parent = self._parent(request, source) if request.kind == "delta" else None
        url = request.target("base" if parent is None else "delta")
        manifest = self._published(url, request, source)
        if manifest is None:
            manifest = self._make(url, request, source, parent)
        if self._has_thresholds:
            self._scores.advance(url)
        fault_point("serving_published")
        self._note(url, request, manifest)
        if self._sender is not None and manifest.type == "delta":
            weights = read_file(checkpoint, f"{self._phase}/model")
            floats = {name: one.numpy() for name, one in weights.items() if one.is_floating_point()}
            num_messages = self._sender.send(url, floats)
            logger.info("sent the delta %s in %d messages", storage.shown(url), num_messages)
        return manifest

    def _tables(self, checkpoint: Folder) -> dict[str, StoredTable]:
        found = stored_tables(checkpoint, self._phase)
        wanted = self._model.model.embedding_collection().tables
        missing = sorted(wanted.keys() - found.keys())
        if missing:
            raise CheckpointError(
                f"{checkpoint.name}: phase {self._phase} has no table {missing[0]!r}; it has "
                f"{', '.join(found) or 'none'}"
            )
        return {name: found[name] for name in wanted}

    def _published(
        self, url: str, request: ServingRequest, source: _Source
    ) -> ModelManifest | None:
        """Return the model if it has been published before the run broke off."""
        if not is_published(url):
            return None
        _, manifest = open_model(url)
        is_same = _is_of_run(manifest, source) and _version_of(manifest).id == request.id
        return manifest if is_same else None

    def _parent(self, request: ServingRequest, source: _Source) -> ModelManifest | None:
        """Return the last model before this one that the run has published for its base.

        None: the run has published no base. If its key is given that is an error.
        """
        number, key = request.id, request.key
        bases = [one for one in read_models(self._folder, "base") if one.id < number]
        base = self._last([one for one in bases if key in (None, one.key)], source)
        if base is None:
            if key is None:
                return None
            raise CheckpointError(
                f"{storage.shown(self._folder)}: no base with the key {key} and an id below "
                f"{number} was published by this run; publish a base first"
            )
        first, base_key = _version_of(base).id, _version_of(base).key
        deltas = [one for one in read_models(self._folder, "delta") if one.key == base_key]
        return self._last([one for one in deltas if first < one.id < number], source) or base

    def _last(self, entries: Sequence[ModelDone], source: _Source) -> ModelManifest | None:
        """Return the last of some entries that can be opened and is of the same run."""
        for entry in reversed(entries):
            try:
                _, manifest = open_model(entry.url(self._folder))
            except CheckpointError as error:
                logger.warning("%s; the next serving model does not build on it", error)
                continue
            if _is_of_run(manifest, source):
                return manifest
        return None

    def _make(
        self, url: str, request: ServingRequest, source: _Source, parent: ModelManifest | None
    ) -> ModelManifest:
        now = request.id if request.event_time is None else request.event_time

        def fill(writer: RowWriter, table: TableConfig) -> TableEntry:
            stored = source.tables[table.name]
            options = self._by_table.get(table.name, self._options)
            before = None
            if parent is not None and options.delta_threshold > 0:
                before = self._scores.at(parent, table.name)
            rows = _Rows(writer, table, options, now, before)
            return rows.write(stored.chain, _changes_since(parent, stored))

        planned = ModelManifest(
            type="base" if parent is None else "delta",
            version=VersionEntry(id=request.id, key=_key(request, parent), day=request.day),
            parent=None if parent is None else _parent_entry(parent),
            source=source.entry,
            graphs=(),
            tables={},
        )
        weights = read_file(source.folder, f"{self._phase}/model")
        made = self._model.publish(url, planned, fill=fill, weights=weights)
        logger.info(
            "published the serving model %s: %s, %d rows, %d removed",
            storage.shown(url),
            made.type,
            sum(table.num_rows for table in made.tables.values()),
            sum(table.num_removed for table in made.tables.values()),
        )
        return made

    def _note(self, url: str, request: ServingRequest, manifest: ModelManifest) -> None:
        version = _version_of(manifest)
        entry = ModelDone(
            id=version.id,
            key=version.key,
            input=storage.to_url(url),
            path=storage.relative(url, to=self._folder),
            monitor_data=request.monitor,
        )
        add_model(self._folder, manifest.type, entry)


class _Rows:
    """Writes the rows of one table that go to serving.

    ``before`` are the scores of rows when they were last published; None: all changes count.
    """

    def __init__(
        self,
        writer: RowWriter,
        table: TableConfig,
        options: ServingOptions,
        now: int,
        before: RowScores | None,
    ) -> None:
        self._before = before
        self._writer = writer
        self._table = table
        self._options = options
        self._now = now

    def write(self, whole: Chain, changes: Chain | None) -> TableEntry:
        """Write the rows of ``changes``, or all of ``whole`` if there is no such chain."""
        hashed = hashed_into(self._table)
        if changes is None:
            for block in live_rows(whole):
                self._add(block, self._is_served_N(block))
            return self._writer.finish(content="all", hashed_into=hashed)
        if changes.urls:
            self._writer.remove(self._write_changes(changed_rows(changes)))
        return self._writer.finish(content="changes", hashed_into=hashed)

    def _write_changes(self, blocks: Iterator[tuple[str, Columns]]) -> IdArray:
        """Write the changed rows; returns the ids that have no row in serving any more."""
        gone: list[IdArray] = [np.zeros(0, np.uint64)]
        there: list[IdArray] = [np.zeros(0, np.uint64)]
        for kind, block in blocks:
            if kind == "tombstones":
                gone.append(block["ids"])
                continue
            is_served_N = self._is_served_N(block)
            is_large_N = is_served_N & self._is_large_change_N(block)
            self._add(block, is_large_N)
            there.append(block["ids"][is_served_N])
            gone.append(block["ids"][~is_served_N])
        return np.setdiff1d(np.concatenate(gone), np.concatenate(there))

    def _add(self, block: Columns, is_kept_N: npt.NDArray[np.bool_]) -> None:
        self._writer.add(block["ids"][is_kept_N], block["rows"][is_kept_N])
        if self._options.delta_threshold > 0:
            self._writer.add_scores(block["ids"][is_kept_N], self._scores_N(block)[is_kept_N])

    def _is_served_N(self, block: Columns) -> npt.NDArray[np.bool_]:
        options = self._options
        is_served_N = np.ones(len(block["ids"]), np.bool_)
        if options.base_threshold > 0:
            is_served_N &= self._scores_N(block) >= options.base_threshold
        if options.delta_keep_days is not None:
            oldest = self._now - options.delta_keep_days * SECONDS_PER_DAY
            is_served_N &= block["last_seen"].astype(np.int64) >= oldest
        return is_served_N

    def _scores_N(self, block: Columns) -> npt.NDArray[np.float64]:
        options = self._options
        clicks_N = block["clicks"].astype(np.float64)
        plain_N = options.nonclk_coeff * (block["shows"] - clicks_N)
        scores_N: npt.NDArray[np.float64] = plain_N + options.click_coeff * clicks_N
        return scores_N

    def _is_large_change_N(self, block: Columns) -> npt.NDArray[np.bool_]:
        """Return which rows have grown by the threshold since they were last published."""
        if self._before is None:
            return np.ones(len(block["ids"]), np.bool_)
        grown_N = self._scores_N(block) - self._before.of(block["ids"])
        # Scores are stored as float32: a row that has grown by exactly the threshold is published.
        is_large_N: npt.NDArray[np.bool_] = grown_N >= self._options.delta_threshold - SCORE_ERROR
        return is_large_N


def _changes_since(parent: ModelManifest | None, table: StoredTable) -> Chain | None:
    """Return the deltas of a table since the checkpoint of ``parent``; None: they are unknown."""
    if parent is None or parent.source is None:
        return None
    chain, before = table.chain, parent.source.tables.get(table.name)
    if before not in chain.fingerprints:
        return None
    first = chain.fingerprints.index(before) + 1
    return Chain(urls=chain.urls[first:], fingerprint=chain.fingerprint)


def _is_of_run(manifest: ModelManifest, source: _Source) -> bool:
    return manifest.source is not None and manifest.source.run_id == source.entry.run_id


def _version_of(manifest: ModelManifest) -> VersionEntry:
    assert manifest.version is not None, "models with a source have a version"
    return manifest.version


def _key(request: ServingRequest, parent: ModelManifest | None) -> int:
    if parent is not None:
        return _version_of(parent).key
    return request.id if request.key is None else request.key


def _parent_entry(parent: ModelManifest) -> ParentEntry:
    version = _version_of(parent)
    return ParentEntry(id=version.id, key=version.key, fingerprint=parent.fingerprint)
