"""Clicks on items that are born, change and die: data on which a model of yesterday is worse."""

import dataclasses
from pathlib import Path

import numpy as np
import numpy.typing as npt

DONE = "to_be_done"
NUM_USERS = 400
NUM_ITEMS = 300  # alive at a time
BORN_PER_HOUR = 6
WALK_PER_HOUR = 0.12  # how much the taste for an item changes


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A folder of samples: one line of slot text each."""

    name: str  # <day>/<HHMM>
    lines: list[str]
    labels: list[int]
    feeds: dict[str, list[list[int]]]


class DriftingClicks:
    """Makes one folder after the other; the same seed gives the same data."""

    def __init__(self, *, seed: int = 0, num_samples: int = 150) -> None:
        self._rng = np.random.default_rng(seed)
        self._num_samples = num_samples
        self._ids = np.arange(NUM_ITEMS) + 1_000_000
        self._next_id = int(self._ids[-1]) + 1
        self._appeal = self._rng.normal(0, 1.5, NUM_ITEMS)
        self._user_mood = self._rng.normal(0, 0.7, NUM_USERS)

    def split(self, name: str, *, minutes: int) -> Split:
        """Return the samples of the next folder, which is ``minutes`` long."""
        self._age(minutes / 60)
        users = self._rng.integers(0, NUM_USERS, self._num_samples)
        items = self._rng.integers(0, NUM_ITEMS, self._num_samples)
        logits = self._user_mood[users] + self._appeal[items] - 1.0
        labels = (self._rng.random(self._num_samples) < 1 / (1 + np.exp(-logits))).astype(int)
        return self._lines(name, users, self._ids[items], labels)

    def _age(self, hours: float) -> None:
        """Let the appeal of items change, and replace some items by new ones."""
        self._appeal += self._rng.normal(0, WALK_PER_HOUR * hours**0.5, NUM_ITEMS)
        num_born = self._rng.poisson(BORN_PER_HOUR * hours)
        dead = self._rng.choice(NUM_ITEMS, num_born, replace=False)
        self._ids[dead] = self._next_id + np.arange(num_born)
        self._next_id += num_born
        self._appeal[dead] = self._rng.normal(0, 1.5, num_born)

    def _lines(
        self,
        name: str,
        users: npt.NDArray[np.int64],
        items: npt.NDArray[np.int64],
        labels: npt.NDArray[np.int64],
    ) -> Split:
        rows = list(zip(labels.tolist(), users.tolist(), items.tolist(), strict=True))
        return Split(
            name=name,
            lines=[f"click:{label} user:{user} item:{item}\n" for label, user, item in rows],
            labels=labels.tolist(),
            feeds={"user": [[u] for u in users.tolist()], "item": [[i] for i in items.tolist()]},
        )


def write_split(root: Path, split: Split) -> None:
    """Write the folder of a split; the done file comes last."""
    folder = root / split.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "part-0").write_text("".join(split.lines), encoding="utf-8")
    (folder / DONE).write_text("", encoding="utf-8")


def split_names(days: list[str], *, minutes: int) -> list[str]:
    """Return the names of all folders of some days."""
    return [
        f"{day}/{minute // 60:02d}{minute % 60:02d}"
        for day in days
        for minute in range(0, 24 * 60, minutes)
    ]
