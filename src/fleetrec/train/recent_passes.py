"""The last passes of a run by their index, for what is published a while after a pass."""

from fleetrec.train.events import PassDone

NUM_KEPT = 20


class RecentPasses:
    """Remembers the last passes of online training."""

    def __init__(self) -> None:
        self._passes: dict[int, PassDone] = {}

    def add(self, done: PassDone) -> None:
        """Remember a pass that was trained."""
        if done.index is None or done.kind != "train":
            return
        oldest = done.index - NUM_KEPT
        recent = {index: one for index, one in self._passes.items() if index > oldest}
        self._passes = {**recent, done.index: done}

    def get(self, index: int) -> PassDone | None:
        """Return a pass; None if it was not trained by this process, or long ago."""
        return self._passes.get(index)

    def age_s(self, index: int, *, now: float) -> float | None:
        """Return how long ago the data of a pass has arrived; None if it is not known."""
        done = self._passes.get(index)
        if done is None or done.arrived_at is None:
            return None
        return max(0.0, now - done.arrived_at)
