"""The models of a run on one server: each has a service with a state folder of its own."""

import threading
from collections.abc import Callable
from pathlib import Path

from fleetrec.server.durable_state import DurableState
from fleetrec.server.prometheus import Metrics
from fleetrec.server.service import Service
from fleetrec.server.wire import WireError

MAX_MODELS = 64
_PREFIX = "model-"

OpenService = Callable[[int, DurableState], Service]
OpenState = Callable[[Path], DurableState]


class ServedModels:
    """Services by model. The first is there from the start, others when a worker asks for them.

    What earlier processes of this server have served is recovered at once.
    """

    def __init__(
        self, directory: Path, *, open_state: OpenState, open_service: OpenService
    ) -> None:
        self._directory = directory
        self._open_state = open_state
        self._open_service = open_service
        self._lock = threading.Lock()
        self._states: list[DurableState] = []
        self._services: dict[int, Service] = {}
        found = [int(path.name.removeprefix(_PREFIX)) for path in directory.glob(f"{_PREFIX}*")]
        for model in (0, *sorted(found)):
            self._open(model)

    def service(self, model: int) -> Service:
        """Return the service of a model, which is opened if it is new."""
        if not 0 <= model < MAX_MODELS:
            raise WireError(f"expected a model below {MAX_MODELS}, got {model}")
        with self._lock:
            if model not in self._services:
                self._open(model)
            return self._services[model]

    def is_finished(self) -> bool:
        """Return whether all workers have finished with all models."""
        return all(service.is_finished.is_set() for service in self._all())

    def num_pending(self) -> int:
        """Return how many pushes wait for their step."""
        return sum(service.num_pending() for service in self._all())

    def metrics(self) -> Metrics:
        """Return the metrics of all models; tables of further ones are named <model>:<table>."""
        merged: dict[str, float | dict[str, float]] = {}
        for model, service in enumerate(self._all()):
            for name, value in service.metrics().items():
                before = merged.get(name)
                if isinstance(value, float):
                    merged[name] = value + (before if isinstance(before, float) else 0.0)
                else:
                    named = {f"{model}:{k}" if model else k: v for k, v in value.items()}
                    merged[name] = {**(before if isinstance(before, dict) else {}), **named}
        return merged

    def close(self) -> None:
        """Close the journals and unlock the folders."""
        for state in self._states:
            state.close()

    def _all(self) -> list[Service]:
        with self._lock:
            return [self._services[model] for model in sorted(self._services)]

    def _open(self, model: int) -> None:
        folder = self._directory if model == 0 else self._directory / f"{_PREFIX}{model}"
        state = self._open_state(folder)
        self._states.append(state)
        self._services[model] = self._open_service(model, state)
