"""Run an inference model: no torch, no model code."""

# Shape suffixes: B samples, N ids, F features of a group, D width of a row.

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load

from fleetrec.checkpoint.folder import open_folder
from fleetrec.core.errors import DataError, UnavailableError

Array = npt.NDArray[Any]
Feed = Array | Sequence[Sequence[int]]


class Predictor:
    """Answers the fetches of an inference model from its feeds.

    Dense feeds are arrays [B, ...]; id feeds are one list of ids per sample, or an array [B, n].
    An id that was never trained on counts as zeros.
    """

    def __init__(self, directory: Path) -> None:
        folder = open_folder(directory, kind="inference model")
        self.feeds: dict[str, dict[str, Any]] = {f["name"]: f for f in folder.meta["feeds"]}
        self.fetches: list[str] = folder.meta["fetches"]
        self._groups: list[dict[str, Any]] = folder.meta["groups"]
        self._session = _session(folder.read_bytes("model.onnx"))
        self._graph_inputs = {node.name for node in self._session.get_inputs()}
        names = {f["table"] for group in self._groups for f in group["features"]}
        self._tables = {
            name: _Table(load(folder.read_bytes(f"tables/{name}.safetensors"))) for name in names
        }

    def predict(
        self, feeds: Mapping[str, Feed], fetches: Sequence[str] | None = None
    ) -> dict[str, Array]:
        """Return the named outputs (all by default), one row per sample."""
        wanted = self.fetches if fetches is None else list(fetches)
        self._check_names(feeds, wanted)
        num_samples = len(next(iter(feeds.values())))
        inputs: dict[str, Array] = {
            name: _dense(feeds[name], feed["shape"], name)
            for name, feed in self.feeds.items()
            if feed["kind"] == "dense"
        }
        for group in self._groups:
            inputs[group["input"]] = self._look_up(group, feeds, num_samples)
        lengths = {name: len(value) for name, value in inputs.items()}
        if len(set(lengths.values())) > 1:
            raise DataError(f"all feeds must have the same number of samples, got {lengths}")
        known = {name: value for name, value in inputs.items() if name in self._graph_inputs}
        outputs = self._session.run(wanted, known)
        return dict(zip(wanted, outputs, strict=True))

    def _check_names(self, feeds: Mapping[str, Feed], fetches: Sequence[str]) -> None:
        if feeds.keys() != self.feeds.keys():
            raise DataError(f"expected the feeds {sorted(self.feeds)}, got {sorted(feeds)}")
        unknown = sorted(set(fetches) - set(self.fetches))
        if unknown:
            raise DataError(f"no output is called {unknown}; known: {self.fetches}")

    def _look_up(self, group: dict[str, Any], feeds: Mapping[str, Feed], num_samples: int) -> Array:
        features, dim = group["features"], group["dim"]
        vectors_BFD = np.zeros((num_samples, len(features), dim), np.float32)
        for place, feature in enumerate(features):
            lists = feeds[feature["feature"]]
            if len(lists) != num_samples:
                raise DataError(
                    f"feed {feature['feature']!r} has {len(lists)} samples, others {num_samples}"
                )
            lengths_B = np.fromiter((len(ids) for ids in lists), np.int64, num_samples)
            ids_N = _ids([i for ids in lists for i in ids])
            samples_N = np.repeat(np.arange(num_samples), lengths_B)
            np.add.at(vectors_BFD[:, place], samples_N, self._tables[feature["table"]].rows(ids_N))
            _scale(vectors_BFD[:, place], feature["combiner"], lengths_B)
        return vectors_BFD.reshape(num_samples, len(features) * dim)


class _Table:
    """Frozen rows, ordered by id."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._ids = arrays["ids"].view(np.uint64)
        self._rows = arrays["rows"]

    def rows(self, ids_N: npt.NDArray[np.uint64]) -> Array:
        found_ND = np.zeros((len(ids_N), self._rows.shape[1]), np.float32)
        if len(self._ids):
            at_N = np.searchsorted(self._ids, ids_N).clip(max=len(self._ids) - 1)
            known_N = self._ids[at_N] == ids_N
            found_ND[known_N] = self._rows[at_N[known_N]]
        return found_ND


def _ids(values: Sequence[int]) -> npt.NDArray[np.uint64]:
    return np.array([int(value) & (2**64 - 1) for value in values], np.uint64)


def _scale(vectors_BD: Array, combiner: str, lengths_B: npt.NDArray[np.int64]) -> None:
    counts_B1 = np.maximum(lengths_B, 1).astype(np.float32)[:, None]
    if combiner == "mean":
        vectors_BD /= counts_B1
    elif combiner == "sqrtn":
        vectors_BD /= np.sqrt(counts_B1)


def _dense(feed: Feed, shape: Sequence[int], name: str) -> Array:
    values = np.ascontiguousarray(feed, np.float32)
    if list(values.shape[1:]) != list(shape):
        raise DataError(f"feed {name!r} must be [samples, {shape}], got {list(values.shape)}")
    return values


def _session(graph: bytes) -> Any:
    try:
        import onnxruntime  # type: ignore[import-untyped]
    except ImportError as error:
        raise UnavailableError(
            "running an inference model needs onnxruntime: pip install 'fleetrec[onnx]'"
        ) from error
    return onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
