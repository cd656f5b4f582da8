"""Warnings about features that do not occur as declared."""

import collections
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from fleetrec.config.job import DatasetOptions
from fleetrec.data.block import SlotCounts

# The first report is after this many samples, the second at the end of the data.
FIRST_REPORT_SAMPLES = 10_000
# A limit, because a file with ids instead of slots would fill the memory.
MAX_UNDECLARED = 1000


class SlotReport:
    """Counts which slots occur, because a misspelt slot would train without a warning."""

    def __init__(self, options: DatasetOptions) -> None:
        self._names = (*options.sparse, *(slot.name for slot in options.dense))
        self._seen: npt.NDArray[np.int64] = np.zeros(len(self._names), np.int64)
        self._undeclared: collections.Counter[str] = collections.Counter()
        self._num_empty = 0
        self._reported: set[str] = set()
        self._is_early = True
        self.num_samples = 0

    def add(self, counts: SlotCounts) -> None:
        """Count one batch."""
        self._seen += counts.seen
        for name, count in counts.undeclared.items():
            if name in self._undeclared or len(self._undeclared) < MAX_UNDECLARED:
                self._undeclared[name] += count
        self._num_empty += counts.num_empty
        self.num_samples += counts.num_samples

    def coverage(self, name: str) -> float:
        """Return the share of samples that have a declared slot."""
        return int(self._seen[self._names.index(name)]) / max(1, self.num_samples)

    def is_due(self) -> bool:
        """Return True once, when enough samples were read for a first report."""
        was_early, self._is_early = self._is_early, self.num_samples < FIRST_REPORT_SAMPLES
        return was_early and not self._is_early

    def take_warnings(self, labels: Sequence[str] = ()) -> list[str]:
        """Return new warnings; each one is returned once."""
        if not self.num_samples:
            return []
        counts = zip(self._names, self._seen.tolist(), strict=True)
        never = self._news(name for name, count in counts if not count)
        undeclared = self._news(name for name, _ in self._undeclared.most_common())
        found = []
        if never:
            found.append(
                f"declared slots that none of {self.num_samples} samples has (they are all "
                f"padding): {', '.join(never)}"
            )
        if undeclared:
            listed = [f"{name} ({self._undeclared[name]} values)" for name in undeclared[:20]]
            more = [f"and {len(undeclared) - 20} more"] if len(undeclared) > 20 else []
            found.append(
                f"slots in the data that are not declared (ignored in {self.num_samples} "
                f"samples): {', '.join([*listed, *more])}"
            )
        for name, count in self._partly_seen(labels):
            found.append(
                f"label {name} is missing in {self.num_samples - count} of {self.num_samples} "
                "samples, which count as padding"
            )
        if self._num_empty and self._news([""]):
            found.append(f"{self._num_empty} empty lines were read as samples of padding")
        return found

    def _partly_seen(self, names: Sequence[str]) -> list[tuple[str, int]]:
        counts = zip(self._names, self._seen.tolist(), strict=True)
        found = {name: count for name, count in counts if name in names}
        partly = {name: count for name, count in found.items() if 0 < count < self.num_samples}
        return [(name, partly[name]) for name in self._news(partly)]

    def _news(self, names: Iterable[str]) -> list[str]:
        news = [name for name in names if name not in self._reported]
        self._reported.update(news)
        return news
