"""Run an inference model: no torch, no model code."""

# Shape suffixes: B samples, N ids, L longest list, F features of a group, D width of a row.

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load

from fleetrec._native import fold_ids
from fleetrec.checkpoint.folder import open_folder
from fleetrec.core.errors import DataError, UnavailableError
from fleetrec.export.id_lists import Array, Feed, IdLists, Weights


class Predictor:
    """Runs an inference model, loaded from a path or a URL.

    Dense feeds are arrays [B, ...]; id feeds are one list of ids per sample, or an array [B, n].
    The vector of an unknown id is zeros.
    """

    def __init__(self, url: str | Path) -> None:
        folder = open_folder(url, kind="inference model")
        self.feeds: dict[str, dict[str, Any]] = {f["name"]: f for f in folder.meta["feeds"]}
        self.fetches: list[str] = folder.meta["fetches"]
        self._groups: list[dict[str, Any]] = folder.meta["groups"]
        self._session = _session(folder.read_bytes("model.onnx"))
        self._graph_inputs = {node.name for node in self._session.get_inputs()}
        names = {f["table"] for group in self._groups for f in _features(group)}
        hashed: dict[str, int] = folder.meta.get("hashed", {})
        self._tables = {
            name: _Table(load(folder.read_bytes(f"tables/{name}.safetensors")), hashed.get(name))
            for name in names
        }

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
        lists = self._lists(feeds, weights or {})
        for group in self._groups:
            inputs |= self._look_up(group, lists)
        lengths = {name: len(value) for name, value in inputs.items()}
        if len(set(lengths.values())) > 1:
            raise DataError(f"all feeds must have the same number of samples, got {lengths}")
        known = {name: value for name, value in inputs.items() if name in self._graph_inputs}
        outputs = self._session.run(wanted, known)
        return dict(zip(wanted, outputs, strict=True))

    def _lists(
        self, feeds: Mapping[str, Feed], weights: Mapping[str, Weights]
    ) -> dict[str, IdLists]:
        num_samples = len(next(iter(feeds.values())))
        names = [name for name, feed in self.feeds.items() if feed["kind"] == "ids"]
        unknown = sorted(weights.keys() - set(names))
        if unknown:
            raise DataError(f"weights are for feeds of ids, {names}; got some for {unknown}")
        lists = {name: IdLists.of(name, feeds[name], weights.get(name)) for name in names}
        for name, some in lists.items():
            if len(some.lengths_B) != num_samples:
                raise DataError(
                    f"feed {name!r} has {len(some.lengths_B)} samples, others {num_samples}"
                )
        return lists

    def _check_names(self, feeds: Mapping[str, Feed], fetches: Sequence[str]) -> None:
        if feeds.keys() != self.feeds.keys():
            raise DataError(f"expected the feeds {sorted(self.feeds)}, got {sorted(feeds)}")
        unknown = sorted(set(fetches) - set(self.fetches))
        if unknown:
            raise DataError(f"no output is called {unknown}; known: {self.fetches}")

    def _look_up(self, group: dict[str, Any], lists: Mapping[str, IdLists]) -> Mapping[str, Array]:
        inputs: dict[str, Array] = {}
        if group["features"]:
            pooled = [
                self._pool(feature, lists[feature["feature"]]) for feature in group["features"]
            ]
            inputs[group["input"]] = np.concatenate(pooled, axis=1)
        for sequence in group.get("sequences", ()):
            kept = lists[sequence["feature"]].last(sequence["max_length"])
            longest = int(kept.lengths_B.max(initial=1))
            x_BLD = np.zeros((len(kept.lengths_B), longest, group["dim"]), np.float32)
            mask_BL = np.arange(longest) < kept.lengths_B[:, None]
            x_BLD[mask_BL] = self._tables[sequence["table"]].rows(kept.ids_N)
            inputs[sequence["input"]] = x_BLD
            inputs[sequence["lengths"]] = kept.lengths_B
        return inputs

    def _pool(self, feature: dict[str, Any], lists: IdLists) -> Array:
        rows_ND = self._tables[feature["table"]].rows(lists.ids_N)
        vectors_BD = np.zeros((len(lists.lengths_B), rows_ND.shape[1]), np.float32)
        np.add.at(vectors_BD, lists.samples_N, lists.scales_N(feature["combiner"]) * rows_ND)
        return vectors_BD


class _Table:
    """Frozen rows, ordered by id."""

    def __init__(self, arrays: Mapping[str, Array], hashed_into: int | None) -> None:
        self._ids = arrays["ids"].view(np.uint64)
        self._rows = arrays["rows"]
        self._hashed_into = hashed_into

    def rows(self, ids_N: npt.NDArray[np.int64]) -> Array:
        if self._hashed_into is not None:
            ids_N = fold_ids(ids_N, num_rows=self._hashed_into)
        found_ND = np.zeros((len(ids_N), self._rows.shape[1]), np.float32)
        if len(self._ids):
            wanted_N = ids_N.view(np.uint64)
            at_N = np.searchsorted(self._ids, wanted_N).clip(max=len(self._ids) - 1)
            known_N = self._ids[at_N] == wanted_N
            found_ND[known_N] = self._rows[at_N[known_N]]
        return found_ND


def _features(group: dict[str, Any]) -> list[dict[str, Any]]:
    return [*group["features"], *group.get("sequences", ())]


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
