"""Feeds one graph of an inference model with ids or raw columns. No torch."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fleetrec.core.errors import DataError
from fleetrec.export.answer import Answer
from fleetrec.export.id_lists import Array, Feed, Weights, keyed_ids
from fleetrec.export.manifest import GraphEntry
from fleetrec.features.feature_set import AnyColumns, FeatureSet
from fleetrec.features.values import FeatureValues, KeyedIds, join_ids


class GraphPredictor(ABC):
    """Computes the outputs of one graph; threads may share one.

    Dense feeds are arrays [B, ...]; id feeds are one list of ids per sample, or an array [B, n].
    The vector of an unknown id is zeros.
    """

    def __init__(self, graph: GraphEntry) -> None:
        self.feeds: dict[str, dict[str, Any]] = {feed.name: _feed(feed) for feed in graph.feeds}
        self.fetches: list[str] = list(graph.fetches)

    @property
    @abstractmethod
    def rules(self) -> FeatureSet:
        """The rules that make features of raw columns."""

    @abstractmethod
    def compute(self, ids: KeyedIds, dense: Mapping[str, Array], fetches: Sequence[str]) -> Answer:
        """Return named outputs of arrays that have been checked, and which version they are of.

        Args:
            ids: The lists of all feeds of ids, in the order of ``feeds``.
            dense: The dense feeds, float32 [B, ...].
            fetches: Names of outputs.
        """

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
        return self.answer_values(values, fetches).outputs

    def answer_values(self, values: FeatureValues, fetches: Sequence[str] | None = None) -> Answer:
        """Return outputs as ``predict_values`` does, and which version they are of."""
        wanted = self.fetches if fetches is None else list(fetches)
        self._check_fetches(wanted)
        kinds = {name: feed["kind"] for name, feed in self.feeds.items()}
        names = [name for name, kind in kinds.items() if kind == "ids"]
        inputs = {name: values.dense[name] for name, kind in kinds.items() if kind == "dense"}
        return self.compute(join_ids([values], names), inputs, wanted)

    def _check_names(self, feeds: Mapping[str, Feed], fetches: Sequence[str]) -> None:
        if feeds.keys() != self.feeds.keys():
            raise DataError(f"expected the feeds {sorted(self.feeds)}, got {sorted(feeds)}")
        self._check_fetches(fetches)

    def _check_fetches(self, fetches: Sequence[str]) -> None:
        unknown = sorted(set(fetches) - set(self.fetches))
        if unknown:
            raise DataError(f"no output is called {unknown}; known: {self.fetches}")


def _feed(feed: Any) -> dict[str, Any]:
    plain: dict[str, Any] = feed.model_dump(mode="json", exclude_none=True)
    return plain


def _dense(feed: Feed, shape: Sequence[int], name: str) -> Array:
    values = np.ascontiguousarray(feed, np.float32)
    if list(values.shape[1:]) != list(shape):
        raise DataError(f"feed {name!r} must be [samples, {shape}], got {list(values.shape)}")
    return values
