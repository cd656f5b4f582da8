"""The scores of rows when they were last published, for tables with a ``delta_threshold``.

A delta holds the rows whose score has grown by the threshold since then. No torch.
"""

# Shape suffixes: N ids.

import dataclasses
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fleetrec.checkpoint.folder import Folder
from fleetrec.export.done_files import read_models
from fleetrec.export.manifest import ModelManifest, open_model
from fleetrec.export.row_files import IdArray, read_removed, read_scores

Scores = npt.NDArray[np.float32]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class RowScores:
    """Scores by id; ids are sorted."""

    ids_N: IdArray
    scores_N: Scores

    @classmethod
    def empty(cls) -> "RowScores":
        """Return no scores."""
        return cls(np.zeros(0, np.uint64), np.zeros(0, np.float32))

    def of(self, ids_N: IdArray) -> Scores:
        """Return the scores of ids; 0 for those that were not published."""
        found_N = np.zeros(len(ids_N), np.float32)
        if len(self.ids_N):
            at_N = np.searchsorted(self.ids_N, ids_N).clip(max=len(self.ids_N) - 1)
            is_known_N = self.ids_N[at_N] == ids_N
            found_N[is_known_N] = self.scores_N[at_N[is_known_N]]
        return found_N

    def updated(self, ids_N: IdArray, scores_N: Scores) -> "RowScores":
        """Return the scores with those of some ids replaced."""
        kept_N = ~np.isin(self.ids_N, ids_N)
        ids_N = np.concatenate([self.ids_N[kept_N], ids_N])
        scores_N = np.concatenate([self.scores_N[kept_N], scores_N])
        order_N = np.argsort(ids_N)
        return RowScores(ids_N[order_N], scores_N[order_N])

    def without(self, ids_N: IdArray) -> "RowScores":
        """Return the scores without those of some ids."""
        kept_N = ~np.isin(self.ids_N, ids_N)
        return RowScores(self.ids_N[kept_N], self.scores_N[kept_N])


class PublishedScores:
    """The scores of the last published version, kept in memory, or read from its models."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._fingerprint = ""
        self._tables: dict[str, RowScores] = {}

    def at(self, version: ModelManifest, table: str) -> RowScores:
        """Return the scores of a table at a published version."""
        if self._fingerprint != version.fingerprint:
            self._tables = {}
            for folder, manifest in self._models_to(version):
                self._apply(folder, manifest)
            self._fingerprint = version.fingerprint
        return self._tables.get(table, RowScores.empty())

    def advance(self, url: str) -> None:
        """Continue with the version that was published at ``url`` next."""
        folder, manifest = open_model(url)
        parent = manifest.parent
        if manifest.type == "base":
            self._tables = {}
        elif parent is None or parent.fingerprint != self._fingerprint:
            return  # read again when it is needed
        self._apply(folder, manifest)
        self._fingerprint = manifest.fingerprint

    def _apply(self, folder: Folder, manifest: ModelManifest) -> None:
        for name, entry in manifest.tables.items():
            scores = self._tables.get(name, RowScores.empty())
            if entry.content == "all":
                scores = RowScores.empty()
            scores = scores.without(read_removed(folder, entry))
            for ids_N, scores_N in read_scores(folder, entry):
                scores = scores.updated(ids_N, scores_N)
            self._tables[name] = scores

    def _models_to(self, version: ModelManifest) -> Iterator[tuple[Folder, ModelManifest]]:
        """Yield the base of a version, and the deltas up to it."""
        assert version.version is not None, "models with a source have a version"
        last, key = version.version.id, version.version.key
        for kind in ("base", "delta"):
            for entry in read_models(self._folder, kind):
                if entry.key == key and entry.id <= last:
                    yield open_model(entry.url(self._folder))
