"""Run an inference model: no torch, no model code."""

import dataclasses
import functools
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fleetrec.checkpoint.folder import Folder
from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError, DataError, ModelError, UnavailableError
from fleetrec.export.answer import Answer as Answer
from fleetrec.export.feature_rules import load_rules, restrict
from fleetrec.export.graph_predictor import GraphPredictor
from fleetrec.export.id_lists import Array
from fleetrec.export.item_index import ItemIndex, load_items
from fleetrec.export.manifest import MODEL, GraphEntry, ModelManifest, VersionEntry, open_model
from fleetrec.export.opened import OpenModel
from fleetrec.export.serving_tables import PreparedTables, ServingTables
from fleetrec.features.feature_set import FeatureSet
from fleetrec.features.values import KeyedIds


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Version:
    """The dense network of a version, by graph, and its manifest."""

    manifest: ModelManifest
    graphs: Mapping[str, "_Graph"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Graph:
    session: Any  # of onnxruntime, which is an extra
    inputs: frozenset[str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PreparedDelta:
    """A delta that has been read and checked, for ``Predictor.apply``."""

    version: _Version
    tables: PreparedTables


class Predictor(GraphPredictor):
    """Runs an inference model, loaded from a path or a URL.

    Dense feeds are arrays [B, ...]; id feeds are one list of ids per sample, or an array [B, n].
    The vector of an unknown id is zeros. Threads may share one: an answer is that of one version,
    also while a delta is applied.

    Args:
        url: The folder of a base, or one that was opened.
        num_threads: Threads that compute one answer. None: one per core.
    """

    def __init__(self, url: str | Path | OpenModel, *, num_threads: int | None = None) -> None:
        opened = url if isinstance(url, OpenModel) else OpenModel.at(url)
        folder, manifest = opened.folder, opened.manifest
        if manifest.type != "base":
            raise CheckpointError(
                f"{folder.name}: is a delta, which is no model by itself; load its base, then "
                "apply it"
            )
        super().__init__(manifest.graph())
        try:
            self._tables = ServingTables(
                manifest.graph().groups,
                manifest.tables,
                towers={name: manifest.graph(name).groups for name in manifest.towers},
            )
        except (ValueError, KeyError) as error:
            raise CheckpointError(f"{folder.name}: damaged: {error}") from error
        self._lock = threading.Lock()
        self._num_threads = num_threads
        self._tables.apply(self._tables.prepare(folder, manifest))
        self._version = _version(folder, manifest, num_threads)
        self.opened = opened
        self._towers = {
            name: TowerPredictor(self, manifest.graph(name)) for name in manifest.towers
        }
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
        nodes = {node.name: node for node in self._version.graphs[MODEL].session.get_outputs()}
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

    @property
    def rules(self) -> FeatureSet:
        """The rules that make features of raw columns."""
        if self._rules is None:
            raise DataError(
                "the model has no rules for raw columns: it was written by an older version, or by "
                "a program that gave none; feed ids to predict, or export it again"
            )
        return self._rules

    @property
    def towers(self) -> tuple[str, ...]:
        """The names of the towers, in a model for retrieval."""
        return tuple(self._towers)

    def tower(self, name: str) -> "TowerPredictor":
        """Return a tower, which answers with the version of this predictor; always the same object.

        Raises:
            DataError: The model has no such tower.
        """
        if name not in self._towers:
            raise DataError(
                f"the model has no tower {name!r}; it has {', '.join(self._towers) or 'none'}"
            )
        return self._towers[name]

    @functools.cached_property
    def items(self) -> ItemIndex | None:
        """The items that the base was exported with; None: there are none."""
        entry = self.opened.manifest.items
        if entry is None:
            return None
        return load_items(self.opened.folder, entry, self.opened.manifest.fingerprint)

    def compute(self, ids: KeyedIds, dense: Mapping[str, Array], fetches: Sequence[str]) -> Answer:
        """Return named outputs of arrays that have been checked, and which version they are of."""
        return self.compute_graph(MODEL, ids, dense, fetches)

    def compute_graph(
        self, name: str, ids: KeyedIds, dense: Mapping[str, Array], fetches: Sequence[str]
    ) -> Answer:
        """Return outputs of one graph; see ``compute``."""
        with self._lock:  # rows and network of one version
            version = self._version
            inputs = {**dense, **self._tables.look_up(ids, graph=name)}
        graph = version.graphs[name]
        known = {name: value for name, value in inputs.items() if name in graph.inputs}
        try:
            outputs = graph.session.run(list(fetches), known)
        except Exception as error:  # it has no base class of its own errors
            reason = str(error).strip().partition("\n")[0]
            raise ModelError(f"onnxruntime cannot compute the model: {reason}") from error
        return Answer(outputs=dict(zip(fetches, outputs, strict=True)), manifest=version.manifest)


class TowerPredictor(GraphPredictor):
    """A tower of a model, which takes fewer feeds and columns than the whole model."""

    def __init__(self, predictor: Predictor, graph: GraphEntry) -> None:
        super().__init__(graph)
        self.name = graph.name
        self._predictor = predictor

    @functools.cached_property
    def rules(self) -> FeatureSet:
        """The rules that make the features of this tower of raw columns."""
        return FeatureSet(restrict(self._predictor.rules.options, self.feeds))

    def compute(self, ids: KeyedIds, dense: Mapping[str, Array], fetches: Sequence[str]) -> Answer:
        """Return named outputs of arrays that have been checked, and which version they are of."""
        return self._predictor.compute_graph(self.name, ids, dense, fetches)


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
    graphs: dict[str, _Graph] = {}
    for graph in manifest.graphs:
        session = _session(folder.read_bytes(graph.file), folder.url_of(graph.file), num_threads)
        inputs = frozenset(node.name for node in session.get_inputs())
        graphs[graph.name] = _Graph(session=session, inputs=inputs)
    return _Version(manifest=manifest, graphs=graphs)


def _session(graph: bytes, url: str, num_threads: int | None) -> Any:
    try:
        import onnxruntime  # type: ignore[import-untyped]
    except ImportError as error:
        raise UnavailableError(
            "running an inference model needs onnxruntime: pip install 'fleetrec[onnx]'"
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads or 0  # 0: one per core
    # Threads that wait for the next call by spinning take the cores from reading and lookup.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # it has no base class of its own errors
        reason = str(error).strip().partition("\n")[0]
        raise CheckpointError(
            f"{storage.shown(url)}: onnxruntime {onnxruntime.__version__} cannot load it: {reason}"
        ) from error
