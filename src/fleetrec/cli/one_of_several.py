"""What every worker of a run does, whether it has servers or ranks beside it."""

from collections.abc import Sequence
from pathlib import Path

from fleetrec.config.job import RunOptions
from fleetrec.core.env import read_status_path
from fleetrec.train.events import Observer, Observers
from fleetrec.train.observers import JsonObserver, StatusObserver
from fleetrec.train.run_folder import RunFolder


def worker_observer(folder: RunFolder, *, index: int, watchers: Sequence[Observer]) -> Observer:
    """Let one worker write down what is about all of them."""
    observers = [*watchers]
    if index == 0:
        observers.append(JsonObserver(folder.metrics))
    status = read_status_path()
    if status is not None:
        observers.append(StatusObserver(status))
    return Observers(*observers)


def with_own_results(run: RunOptions, *, index: int, count: int) -> RunOptions:
    """Let every worker dump its results into a file of its own."""
    if run.dump_path is None or count == 1:
        return run
    own = Path(f"{run.dump_path}_worker_{index}")
    return run.model_copy(update={"dump_path": own})
