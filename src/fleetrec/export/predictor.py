"""Run an inference model: no torch, no model code."""

import dataclasses
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fleetrec.checkpoint.folder import Folder
from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError, DataError, ModelError, UnavailableError
from fleetrec.export.feature_rules import load_rules
from fleetrec.export.id_lists import Array, Feed, Weights, keyed_ids
from fleetrec.export.manifest import GraphEntry, ModelManifest, VersionEntry, open_model
from fleetrec.export.serving_tables import PreparedTables, ServingTables
from fleetrec.features.feature_set import AnyColumns, FeatureSet
from fleetrec.features.values import FeatureValues, KeyedIds, join_ids


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Version:
    """The dense network of a version, and its manifest."""

    manifest: ModelManifest
    session: Any  # of onnxruntime, which is an extra
    inputs: frozenset[str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PreparedDelta:
    """A delta that has been read and checked, for ``Predictor.apply``."""

    version: _Version
    tables: PreparedTables


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Outputs by name, and the manifest of the version that computed them."""

    outputs: dict[str, Array]
    manifest: ModelManifest


class Predictor:
    """Runs an inference model, loaded from a path or a URL.

    Dense feeds are arrays [B, ...]; id feeds are one list of ids per sample, or an array [B, n].
    The vector of an unknown id is zeros. Threads may share one: an answer is that of one version,
    also while a delta is applied.

    Args:
        url: The folder of a base.
        num_threads: Threads that compute one answer. None: one per core.
    """

    def __init__(self, url: str | Path, *, num_threads: int | None = None) -> None:
        folder, manifest = open_model(url)
        if manifest.type != "base":
            raise CheckpointError(
                f"{folder.name}: is a delta, which is no model by itself; load its base, then "
                "apply it"
            )
        graph = manifest.graph()
        self.feeds: dict[str, dict[str, Any]] = {feed.name: _feed(feed) for feed in graph.feeds}
        self.fetches: list[str] = list(graph.fetches)
        try:
            self._tables = ServingTables(graph.groups, manifest.tables)
        except (ValueError, KeyError) as error:
            raise CheckpointError(f"{folder.name}: damaged: {error}") from error
        self._lock = threading.Lock()
        self._num_threads = num_threads
        self._tables.apply(self._tables.prepare(folder, manifest))
        self._version = _version(folder, manifest, num_threads)
        self._rules = None if manifest.input is None else load_rules(folder, manifest.input)
        self.text_table = None if manifest.input is None else manifest.input.text_table

    @property
    def manifest(self) -> ModelManifest:
        """The manifest of the version that answers."""
        return self._version.manifest

    @property
    def version(self) -> VersionEntry | None:
        """The id, key and day of the version that answers; None: it was published without."""
        return self._version.manifest.version

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the version that answers."""
        return self._version.manifest.fingerprint

    @property
    def num_rows(self) -> int:
        """The number of rows of all tables."""
        with self._lock:
            return len(self._tables)

    @property
    def output_types(self) -> dict[str, tuple[str, list[int]]]:
        """The type of every output in ONNX, such as tensor(float), and its shape; -1 is free."""
        nodes = {node.name: node for node in self._version.session.get_outputs()}
        return {
            name: (
                nodes[name].type,
                [size if isinstance(size, int) else -1 for size in nodes[name].shape],
            )
            for name in self.fetches
        }

    def apply(self, delta: str | Path | PreparedDelta) -> None:
        """Apply a delta of the loaded version; answers are those of the old or the new version.

        Raises:
            CheckpointError: The delta is damaged, or its parent is not the loaded version: nothing
                has changed.
        """
        prepared = delta if isinstance(delta, PreparedDelta) else self.prepare(delta)
        with self._lock:
            _check_parent("the delta", prepared.version.manifest, self._version.manifest)
            self._tables.apply(prepared.tables)
            self._version = prepared.version

    def prepare(self, url: str | Path) -> PreparedDelta:
        """Read and check a delta of the loaded version, which takes longer than to apply it."""
        folder, manifest = open_model(url)
        loaded = self._version.manifest
        _check_parent(folder.name, manifest, loaded)
        _check_same_model(folder.name, manifest, loaded)
        return PreparedDelta(
            version=_version(folder, manifest, self._num_threads),
            tables=self._tables.prepare(folder, manifest),
        )

    def predict(
        self,
        feeds: Mapping[str, Feed],
        fetches: Sequence[str] | None = None,
        *,
        weights: Mapping[str, Weights] | None = None,
    ) -> dict[str, Array]:
        """Return the named outputs (all by default), one row per sample.

        ``weights`` hold one number per id for feeds that were trained with weights.
        """
        wanted = self.fetches if fetches is None else list(fetches)
        self._check_names(feeds, wanted)
        inputs: dict[str, Array] = {
            name: _dense(feeds[name], feed["shape"], name)
            for name, feed in self.feeds.items()
            if feed["kind"] == "dense"
        }
        names = [name for name, feed in self.feeds.items() if feed["kind"] == "ids"]
        unknown = sorted((weights or {}).keys() - set(names))
        if unknown:
            raise DataError(f"weights are for feeds of ids, {names}; got some for {unknown}")
        num_samples = len(next(iter(feeds.values())))
        ids = keyed_ids(
            {name: feeds[name] for name in names}, weights or {}, num_samples=num_samples
        )
        lengths = {name: len(value) for name, value in inputs.items()}
        if set(lengths.values()) - {num_samples}:
            raise DataError(
                f"all feeds must have the same number of samples, got {num_samples} and {lengths}"
            )
        return self.compute(ids, inputs, wanted).outputs

    def predict_raw(
        self, columns: AnyColumns, fetches: Sequence[str] | None = None
    ) -> dict[str, Array]:
        """Return outputs for raw columns: a pyarrow Table, or lists by name of the column.

        The columns become ids and numbers by the rules of the training data. A column of a slot may
        be missing; rows without a value get its padding.
        """
        return self.predict_values(self.rules.transform(columns), fetches)

    def predict_values(
        self, values: FeatureValues, fetches: Sequence[str] | None = None
    ) -> dict[str, Array]:
        """Return outputs for features that ``rules`` have made."""
        wanted = self.fetches if fetches is None else list(fetches)
        self._check_fetches(wanted)
        kinds = {name: feed["kind"] for name, feed in self.feeds.items()}
        names = [name for name, kind in kinds.items() if kind == "ids"]
        inputs = {name: values.dense[name] for name, kind in kinds.items() if kind == "dense"}
        return self.compute(join_ids([values], names), inputs, wanted).outputs

    @property
    def rules(self) -> FeatureSet:
        """The rules that make features of raw columns."""
        if self._rules is None:
            raise DataError(
                "the model has no rules for raw columns: it was written by an older version, or by "
                "a program that gave none; feed ids to predict, or export it again"
            )
        return self._rules

    def compute(self, ids: KeyedIds, dense: Mapping[str, Array], fetches: Sequence[str]) -> Answer:
        """Return named outputs of arrays that have been checked, and which version they are of.

        Args:
            ids: The lists of all feeds of ids, in the order of ``feeds``.
            dense: The dense feeds, float32 [B, ...].
            fetches: Names of outputs.
        """
        with self._lock:  # rows and network of one version
            version = self._version
            inputs = {**dense, **self._tables.look_up(ids)}
        known = {name: value for name, value in inputs.items() if name in version.inputs}
        try:
            outputs = version.session.run(list(fetches), known)
        except Exception as error:  # it has no base class of its own errors
            reason = str(error).strip().partition("\n")[0]
            raise ModelError(f"onnxruntime cannot compute the model: {reason}") from error
        return Answer(outputs=dict(zip(fetches, outputs, strict=True)), manifest=version.manifest)

    def _check_names(self, feeds: Mapping[str, Feed], fetches: Sequence[str]) -> None:
        if feeds.keys() != self.feeds.keys():
            raise DataError(f"expected the feeds {sorted(self.feeds)}, got {sorted(feeds)}")
        self._check_fetches(fetches)

    def _check_fetches(self, fetches: Sequence[str]) -> None:
        unknown = sorted(set(fetches) - set(self.fetches))
        if unknown:
            raise DataError(f"no output is called {unknown}; known: {self.fetches}")


def _check_parent(name: str, delta: ModelManifest, loaded: ModelManifest) -> None:
    if delta.parent is None:
        raise CheckpointError(f"{name}: is a base, not a delta; load it with Predictor")
    if delta.parent.fingerprint != loaded.fingerprint:
        raise CheckpointError(
            f"{name}: is a delta of the model with id {delta.parent.id}, fingerprint "
            f"{delta.parent.fingerprint}, but the loaded one has {loaded.name}; apply the deltas "
            "in between, or load the next base"
        )


def _check_same_model(name: str, delta: ModelManifest, loaded: ModelManifest) -> None:
    def shape(manifest: ModelManifest) -> tuple[Any, ...]:
        tables = {n: (table.dim, table.hashed_into) for n, table in manifest.tables.items()}
        return (manifest.graphs, tables)

    if shape(delta) != shape(loaded):
        raise CheckpointError(
            f"{name}: has other feeds, outputs or tables than the loaded model; load the next base"
        )


def _version(folder: Folder, manifest: ModelManifest, num_threads: int | None) -> _Version:
    graph: GraphEntry = manifest.graph()
    session = _session(folder.read_bytes(graph.file), folder.url_of(graph.file), num_threads)
    inputs = frozenset(node.name for node in session.get_inputs())
    return _Version(manifest=manifest, session=session, inputs=inputs)


def _feed(feed: Any) -> dict[str, Any]:
    plain: dict[str, Any] = feed.model_dump(mode="json", exclude_none=True)
    return plain


def _dense(feed: Feed, shape: Sequence[int], name: str) -> Array:
    values = np.ascontiguousarray(feed, np.float32)
    if list(values.shape[1:]) != list(shape):
        raise DataError(f"feed {name!r} must be [samples, {shape}], got {list(values.shape)}")
    return values


def _session(graph: bytes, url: str, num_threads: int | None) -> Any:
    try:
        import onnxruntime  # type: ignore[import-untyped]
    except ImportError as error:
        raise UnavailableError(
            "running an inference model needs onnxruntime: pip install 'fleetrec[onnx]'"
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads or 0  # 0: one per core
    try:
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # it has no base class of its own errors
        reason = str(error).strip().partition("\n")[0]
        raise CheckpointError(
            f"{storage.shown(url)}: onnxruntime {onnxruntime.__version__} cannot load it: {reason}"
        ) from error
