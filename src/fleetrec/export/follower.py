"""Follow the serving models that a run publishes: the newest base and the deltas after it."""

import dataclasses
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from fleetrec.core import storage
from fleetrec.core.errors import CheckpointError, FleetRecError, UnavailableError
from fleetrec.export.done_files import ModelDone, read_models
from fleetrec.export.id_lists import Array, Feed, Weights
from fleetrec.export.manifest import open_model
from fleetrec.export.predictor import Predictor
from fleetrec.features.feature_set import AnyColumns

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FollowedVersion:
    """The version that answers: its own id, and that of its base."""

    id: int
    key: int
    fingerprint: str


class Follower:
    """Answers with the newest serving model of a folder with done files.

    ``poll`` loads what is new: deltas are applied to the loaded model, a new base is loaded next to
    it and replaces it. If a delta is missing or damaged, the loaded version keeps answering until
    that delta can be applied or there is a new base. With ``poll_s`` a thread polls; close the
    follower, or use it in a ``with`` block, to end it.

    Args:
        model_save_path: The folder of the done files, a path or a URL.
        poll_s: Seconds between two polls. None: the caller polls.
        num_threads: Threads that compute one answer. None: one per core.
        on_load: Is called with every base before it answers.
    """

    def __init__(
        self,
        model_save_path: str | Path,
        *,
        poll_s: float | None = None,
        num_threads: int | None = None,
        on_load: Callable[[Predictor], object] = lambda _: None,
    ) -> None:
        self._on_load = on_load
        self._folder = storage.to_url(model_save_path)
        self._num_threads = num_threads
        self._predictor: Predictor | None = None
        self._base: ModelDone | None = None  # of the loaded version
        self._newest_id: int | None = None  # in the done files
        self._last_problem = ""
        self._polling = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self.poll()
        if poll_s is not None:
            self._thread = threading.Thread(
                target=self._poll_until_closed, args=(poll_s,), name="fleetrec-follow", daemon=True
            )
            self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the thread that polls."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    @property
    def predictor(self) -> Predictor | None:
        """The loaded model, to which later deltas are applied; None: there is no base yet."""
        return self._predictor

    @property
    def version(self) -> FollowedVersion | None:
        """The version that answers; None: there is no base yet."""
        return None if self._predictor is None else _version_of(self._predictor)

    @property
    def lag_s(self) -> int | None:
        """By how much the id of the newest published model is ahead of the one that answers.

        Ids are event times in seconds, or steps. None: no model is loaded.
        """
        version, newest_id = self.version, self._newest_id
        if version is None or newest_id is None:
            return None
        return max(0, newest_id - version.id)

    @property
    def feeds(self) -> dict[str, dict[str, Any]]:
        """The feeds of the model by name; see ``Predictor.feeds``."""
        return self._loaded().feeds

    def predict(
        self,
        feeds: Mapping[str, Feed],
        fetches: Sequence[str] | None = None,
        *,
        weights: Mapping[str, Weights] | None = None,
    ) -> dict[str, Array]:
        """Answer with the loaded version; see ``Predictor.predict``."""
        return self._loaded().predict(feeds, fetches, weights=weights)

    def predict_raw(
        self, columns: AnyColumns, fetches: Sequence[str] | None = None
    ) -> dict[str, Array]:
        """Answer for raw columns with the loaded version; see ``Predictor.predict_raw``."""
        return self._loaded().predict_raw(columns, fetches)

    def poll(self) -> bool:
        """Load what has been published since the last call; returns whether the version changed.

        Models that cannot be loaded are logged, and tried again by the next call.
        """
        with self._polling:
            before = self.version
            problems: list[str] = []
            try:
                bases = read_models(self._folder, "base")
                deltas = read_models(self._folder, "delta")
                self._newest_id = _newest_id(bases, deltas)
                self._load_newest(bases, deltas, problems)
            except CheckpointError as error:  # of a done file
                problems.append(str(error))
            self._report(problems)
            return self.version != before

    def _loaded(self) -> Predictor:
        predictor = self._predictor
        if predictor is None:
            raise UnavailableError(
                f"{storage.shown(self._folder)}: no serving model has been published yet"
            )
        return predictor

    def _load_newest(
        self, bases: Sequence[ModelDone], deltas: Sequence[ModelDone], problems: list[str]
    ) -> None:
        """Load the newest base that can be loaded, if it is not there yet, and its deltas."""
        for base in reversed(bases):
            if base == self._base:
                break
            try:
                predictor = Predictor(base.url(self._folder), num_threads=self._num_threads)
            except CheckpointError as error:
                problems.append(str(error))
                continue
            self._on_load(predictor)
            self._apply(predictor, deltas, problems)
            self._predictor, self._base = predictor, base
            return
        if self._predictor is not None:
            self._apply(self._predictor, deltas, problems)

    def _apply(
        self, predictor: Predictor, deltas: Iterable[ModelDone], problems: list[str]
    ) -> None:
        """Apply deltas, one after the other, as long as there is one of the loaded version."""
        version = _version_of(predictor)
        later = [one for one in deltas if one.key == version.key and one.id > version.id]
        while later:
            found = self._next(predictor, later, problems)
            if found is None:
                return
            try:
                predictor.apply(found.url(self._folder))
            except CheckpointError as error:
                problems.append(str(error))
                return
            later = [one for one in later if one.id > found.id]

    def _next(
        self, predictor: Predictor, deltas: Sequence[ModelDone], problems: list[str]
    ) -> ModelDone | None:
        """Return the delta whose parent is loaded."""
        for delta in deltas:
            try:
                _, manifest = open_model(delta.url(self._folder))
            except CheckpointError as error:
                problems.append(str(error))
                continue
            if manifest.parent and manifest.parent.fingerprint == predictor.fingerprint:
                return delta
        version = _version_of(predictor)
        problems.append(
            f"{storage.shown(self._folder)}: no delta applies to the loaded model with id "
            f"{version.id}, fingerprint {version.fingerprint}, though the deltas "
            f"{', '.join(str(one.id) for one in deltas)} are later; waiting for the next base"
        )
        return None

    def _report(self, problems: Sequence[str]) -> None:
        """Log problems when they change, not at every poll."""
        text = "; ".join(problems)
        if text and text != self._last_problem:
            logger.warning("%s", text)
        self._last_problem = text

    def _poll_until_closed(self, poll_s: float) -> None:
        while not self._closed.wait(poll_s):
            try:
                self.poll()
            except FleetRecError as error:  # the loaded model keeps answering
                self._report([str(error)])


def _newest_id(bases: Sequence[ModelDone], deltas: Sequence[ModelDone]) -> int | None:
    """Return the id of the last model that was published."""
    if not bases:
        return None
    base = bases[-1]
    return max([base.id, *(one.id for one in deltas if one.key == base.key)])


def _version_of(predictor: Predictor) -> FollowedVersion:
    manifest = predictor.manifest
    if manifest.version is None:
        raise CheckpointError("expected a model that a run has published in done files")
    return FollowedVersion(
        id=manifest.version.id, key=manifest.version.key, fingerprint=manifest.fingerprint
    )
