"""Reads the data of the next pass into memory while the current one trains."""

import contextlib
import logging
import threading

from fleetrec.config.online import OnlineOptions
from fleetrec.core.background import yield_to_training
from fleetrec.core.errors import FleetRecError
from fleetrec.data.loader import Loader
from fleetrec.train.pass_plan import PassPlan, PassSpec, PhaseFiles
from fleetrec.train.phase import Phase

logger = logging.getLogger(__name__)


class ReadAhead:
    """Reads one pass ahead, for data sets that are kept in memory.

    Every process reads its own part. What was read is used only if the pass turns out to have the
    same files; an error is left to the pass, which reads again.
    """

    def __init__(self, plan: PassPlan, online: OnlineOptions | None) -> None:
        self._plan = plan
        follow = None if online is None or not online.read_ahead else online.follow
        self._is_on = follow is not None
        self._poll_s = 0.0 if follow is None else follow.poll_s
        self._reads: dict[str, _Read] = {}  # by phase

    def start(self, phase: Phase, index: int) -> None:
        """Start to read pass ``index`` as soon as its data is complete."""
        if self._is_on and phase.options.dataset.kind == "InMemoryDataset":
            self._stop(phase.name)
            self._reads[phase.name] = _Read(self._plan, phase, index, poll_s=self._poll_s)

    def take(self, phase: Phase, spec: PassSpec) -> Loader | None:
        """Return a loader that holds the data of a pass; None if it was not read."""
        read = self._reads.pop(phase.name, None)
        return None if read is None else read.take(spec)

    def close(self) -> None:
        """Stop reading."""
        for name in list(self._reads):
            self._stop(name)

    def _stop(self, phase: str) -> None:
        read = self._reads.pop(phase, None)
        if read is not None:
            read.stop()


class _Read:
    """The thread that reads one pass."""

    def __init__(self, plan: PassPlan, phase: Phase, index: int, *, poll_s: float) -> None:
        self._plan = plan
        self._phase = phase
        self._index = index
        self._poll_s = poll_s
        self._should_stop = threading.Event()
        self._files: PhaseFiles | None = None
        self._loader: Loader | None = None
        self._thread = threading.Thread(target=self._run, name="fleetrec-read-ahead", daemon=True)
        self._thread.start()

    def take(self, spec: PassSpec) -> Loader | None:
        """Return what was read if it is the data of ``spec``; waits if it is being read."""
        self._should_stop.set()
        name = self._phase.name
        is_same = self._files is not None and self._files[name] == spec.files[name]
        if spec.index != self._index or not is_same:
            return None
        self._thread.join()
        return self._loader

    def stop(self) -> None:
        """Stop waiting for data; what is being read is read to the end of its file."""
        self._should_stop.set()
        self._thread.join()

    def _run(self) -> None:
        yield_to_training()
        with contextlib.suppress(FleetRecError, OSError):  # the pass itself meets it, too
            files = self._wait()
            if files is None:
                return
            loader = self._phase.open_files(files[self._phase.name])
            self._files = files
            loader.load_into_memory()
            self._loader = loader

    def _wait(self) -> PhaseFiles | None:
        while not self._should_stop.is_set():
            files = self._plan.peek(self._index)
            if files is not None and files[self._phase.name]:
                return files
            self._should_stop.wait(self._poll_s)
        return None
