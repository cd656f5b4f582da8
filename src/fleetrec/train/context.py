"""Clock, run id, folder, observers and stop flag of a run."""

import dataclasses
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from fleetrec.train.events import Observer
from fleetrec.train.run_folder import RunFolder
from fleetrec.train.throughput import Clock


class StoppedError(Exception):
    """The run was interrupted, and has saved itself."""

    def __init__(self, checkpoint: str) -> None:
        self.checkpoint = checkpoint
        super().__init__(f"stopped; saved in {checkpoint}")


class StopRequestedError(Exception):
    """A pass ended early because the run is to stop."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunContext:
    """Clock, run id, folder, observer and stop flag of a run.

    ``journal`` is a file for the metrics of single steps. It is given where steps outlive this
    process, because others store them. Then a process that replaces this one continues after the
    last of them, and an interrupted run needs no checkpoint. ``peer_journals`` are those of the
    other workers by rank: a checkpoint within a pass holds what all have counted. ``now`` returns
    the time of day, in seconds since 1970.
    """

    clock: Clock
    run_id: str
    folder: RunFolder
    observer: Observer
    should_stop: Callable[[], bool] = lambda: False
    now: Clock = time.time
    journal: Path | None = None
    peer_journals: Mapping[int, Path] = dataclasses.field(default_factory=dict)
