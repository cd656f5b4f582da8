"""One process of a run: the only one, a rank, a worker or a server, started by any launcher."""

import contextlib
import logging
import secrets
import time
from collections.abc import Callable, Iterator, Sequence

from fleetrec._native import keep_freed_memory
from fleetrec.cli.logs import run_log
from fleetrec.cli.new_run import check_new_run_together
from fleetrec.cli.observers import OutputsObserver, how_to_continue, log_finish, log_observer
from fleetrec.cli.progress import ProgressObserver
from fleetrec.cli.signals import StopRequest
from fleetrec.config.job import RunOptions
from fleetrec.core.env import read_status_path
from fleetrec.core.errors import FleetRecError
from fleetrec.core.place import Place
from fleetrec.parallel.group import Group
from fleetrec.parallel.join import join_group
from fleetrec.server.process import run_server
from fleetrec.train.context import RunContext, StoppedError
from fleetrec.train.events import Observer, Observers
from fleetrec.train.observers import JsonObserver, StatusObserver
from fleetrec.train.records import read_records
from fleetrec.train.report import write_report
from fleetrec.train.run import Evaluation, Training
from fleetrec.train.run_folder import RunFolder
from fleetrec.train.summaries import open_summaries
from fleetrec.train.watch import Watch, open_watch

logger = logging.getLogger(__name__)


def run_process(
    run: RunOptions,
    place: Place,
    *,
    folder: RunFolder,
    resume: bool,
    observers: Sequence[Observer] = (),
    quiet: bool = False,
) -> None:
    """Do this process's part of a run until the run is over.

    ``resume`` continues the last training in ``folder``. A run that is asked to stop saves itself
    and raises KeyboardInterrupt. ``observers`` are added to the usual ones. ``quiet`` shows no
    progress bar.
    """
    keep_freed_memory()
    if place.role == "server":
        run_server(place, initial=None)
        return
    with contextlib.ExitStack() as stack:
        stop = stack.enter_context(StopRequest())
        group = join_group(run, place, should_stop=stop.is_requested)
        resume = run.kind == "train" and (resume or group.num_restarts > 0)
        is_continued = resume or place.is_supervised or group.num_restarts > 0
        outputs = OutputsObserver()
        watch = stack.enter_context(_open_watch(run, folder, group, is_continued=is_continued))
        if group.is_chief and not quiet:
            observers = (*observers, stack.enter_context(ProgressObserver(run.name)))
        own_observers = stack.enter_context(_open_observers(run, folder, group))
        context = RunContext(
            clock=time.monotonic,
            run_id=(folder.run_id() if is_continued else None) or secrets.token_hex(8),
            folder=folder,
            observer=Observers(*own_observers, *watch.observers, outputs, *observers),
            should_stop=stop.is_requested,
            journal=folder.metric_journal(place),
            peer_journals=folder.peer_journals(place),
        )
        work = _prepare(with_worker_dump_path(run, group), group, context, resume=resume)
        owns_folder = group.is_chief and not place.is_supervised
        # Only now: if a run cannot start, the log of the last one is still there.
        is_new = not (is_continued or group.has_started)
        if not place.is_supervised:  # else the supervisor has checked it
            _check_new_run(run, group, is_new=is_new)
        if owns_folder:
            stack.enter_context(_begin(run, context, is_new=is_new))
        stack.enter_context(watch.serving())
        try:
            work()
        except StoppedError as error:
            logger.warning("%s", error)
            if owns_folder:
                logger.warning("%s", how_to_continue(run))
            raise KeyboardInterrupt from error
        if owns_folder:
            log_finish(run, folder, outputs)


def _check_new_run(run: RunOptions, group: Group, *, is_new: bool) -> None:
    """Refuse a used folder on every process; all of them leave the group, and servers end."""
    try:
        check_new_run_together(run, group, is_new=is_new)
    except FleetRecError:
        group.close(finished=True)
        raise


def _prepare(
    run: RunOptions, group: Group, context: RunContext, *, resume: bool
) -> Callable[[], None]:
    """Open the data and build the models, so that nothing fails later that can fail now."""
    if run.kind == "train":
        training = Training(run, group, context)
        return lambda: _finish(lambda: training.run(resume=resume), training)
    evaluation = Evaluation(run, group, context)
    return lambda: _finish(evaluation.run, evaluation)


def _finish(work: Callable[[], None], owner: Training | Evaluation) -> None:
    """Do the work, then leave the group as one that has finished or failed."""
    finished = False
    try:
        work()
        finished = True
    finally:
        owner.close(finished=finished)


@contextlib.contextmanager
def _begin(run: RunOptions, context: RunContext, *, is_new: bool) -> Iterator[None]:
    """Prepare the run folder; in the block it gets the log, and at its end the report."""
    folder = context.folder
    folder.begin(context.run_id, fresh=is_new, options=run.to_plain())
    with run_log(folder.log):
        logger.info("Runner %s Begin", run.name)
        try:
            yield
        finally:
            write_report(folder)


@contextlib.contextmanager
def _open_observers(run: RunOptions, folder: RunFolder, group: Group) -> Iterator[list[Observer]]:
    """Open what watches a run in this process; the chief writes what is about all processes."""
    with contextlib.ExitStack() as stack:
        observers: list[Observer] = [log_observer(run)]
        if group.is_chief:
            observers += [
                _json_observer(run, folder),
                *stack.enter_context(open_summaries(folder.path, run)),
            ]
        status = read_status_path()
        if status is not None:
            observers.append(StatusObserver(status))
        yield observers


def _json_observer(run: RunOptions, folder: RunFolder) -> JsonObserver:
    return JsonObserver(folder.metrics, now=None if run.online is None else time.time)


@contextlib.contextmanager
def _open_watch(
    run: RunOptions, folder: RunFolder, group: Group, *, is_continued: bool
) -> Iterator[Watch]:
    """Open alarms and metrics page of an online run in the chief; a wrong port ends the group."""
    if not group.is_chief:
        yield Watch()
        return
    with contextlib.ExitStack() as stack:
        opened = open_watch(
            run,
            now=time.time,
            on_alarm=_json_observer(run, folder).alarm,
            earlier=read_records(folder.metrics) if is_continued else (),
        )
        try:
            watch = stack.enter_context(opened)
        except FleetRecError:
            group.close(finished=True)
            raise
        yield watch


def with_worker_dump_path(run: RunOptions, group: Group) -> RunOptions:
    """Return the options of this process, in which every worker dumps into a file of its own."""
    if run.dump_path is None or group.size == 1:
        return run
    return run.model_copy(update={"dump_path": f"{run.dump_path}_worker_{group.rank}"})
