"""Where a server gets its model from: a folder that is loaded again on request, or a run."""

import dataclasses
import logging
import threading
from collections.abc import Callable
from typing import Protocol

from fleetrec.core import storage
from fleetrec.core.errors import FleetRecError, UnavailableError
from fleetrec.export.follower import Follower
from fleetrec.export.manifest import ModelManifest
from fleetrec.export.predictor import Predictor
from fleetrec.serving.recall import RecallModel
from fleetrec.serving.request_decoder import RequestDecoder
from fleetrec.serving.signature import Signature

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A predictor and its inputs and outputs, which deltas do not change."""

    predictor: Predictor
    signature: Signature
    recall: RecallModel | None = None  # None: the model has no items
    decoder: RequestDecoder = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "decoder", RequestDecoder(self.signature))


Load = Callable[[Predictor], LoadedModel]


class ModelSource(Protocol):
    """Holds the model that answers. Threads may share one."""

    @property
    def loaded(self) -> LoadedModel | None:
        """The model for new requests; None: there is none yet."""
        ...

    @property
    def lag_s(self) -> int | None:
        """By how much the newest published model is ahead; None: not known."""
        ...

    def reload(self) -> None:
        """Load what is there now; raises FleetRecError, and the loaded model stays."""
        ...

    def close(self) -> None:
        """End the threads."""
        ...


class FolderModel:
    """An inference model at a path or a URL, loaded by the constructor and by ``reload``."""

    def __init__(self, url: str, load: Load, *, num_threads: int) -> None:
        self._url = url
        self._load_model = load
        self._num_threads = num_threads
        self._reloading = threading.Lock()
        self._loaded = self._load()

    @property
    def loaded(self) -> LoadedModel | None:
        """The model for new requests."""
        return self._loaded

    @property
    def lag_s(self) -> int | None:
        """None: nothing is followed."""
        return None

    def reload(self) -> None:
        """Load the folder again; requests that were accepted are answered by the old model."""
        with self._reloading:
            self._loaded = self._load()
            manifest = self._loaded.predictor.manifest
            logger.info("loaded %s: %s", storage.shown(self._url), manifest.name)

    def close(self) -> None:
        """Nothing to end."""

    def _load(self) -> LoadedModel:
        predictor = Predictor(self._url, num_threads=self._num_threads)
        return self._load_model(predictor)


class FollowedModel:
    """The newest model of a folder with done files.

    A thread loads the first model, so that the server answers health checks meanwhile.
    """

    def __init__(self, url: str, load: Load, *, num_threads: int, poll_s: float) -> None:
        self._url = url
        self._load_model = load
        self._num_threads = num_threads
        self._poll_s = poll_s
        self._follower: Follower | None = None
        self._loaded: LoadedModel | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._start, name="first-model", daemon=True)
        self._thread.start()

    @property
    def loaded(self) -> LoadedModel | None:
        """The model for new requests; None: there is no base yet."""
        follower = self._follower
        predictor = None if follower is None else follower.predictor
        loaded = self._loaded
        if predictor is None or (loaded is not None and loaded.predictor is predictor):
            return loaded
        self._loaded = loaded = self._load_model(predictor)
        return loaded

    @property
    def lag_s(self) -> int | None:
        """By how much the newest published model is ahead."""
        follower = self._follower
        return None if follower is None else follower.lag_s

    def reload(self) -> None:
        """Poll now."""
        if self._follower is None:
            raise UnavailableError(f"{storage.shown(self._url)}: the first model is being loaded")
        self._follower.poll()

    def close(self) -> None:
        """End the threads."""
        self._closed.set()
        self._thread.join()
        if self._follower is not None:
            self._follower.close()

    def _start(self) -> None:
        problem = ""
        while not self._closed.is_set():
            try:
                self._follower = Follower(
                    self._url,
                    poll_s=self._poll_s,
                    num_threads=self._num_threads,
                    on_load=lambda predictor: predictor.items,  # it is read before requests come
                )
            except FleetRecError as error:  # such as storage that cannot be reached yet
                if str(error) != problem:
                    logger.warning("%s", error)
                problem = str(error)
                self._closed.wait(self._poll_s)
            else:
                return


def version_of(manifest: ModelManifest) -> str:
    """Return the name of a version in responses: its id, or its fingerprint if it has none."""
    return manifest.fingerprint if manifest.version is None else str(manifest.version.id)
