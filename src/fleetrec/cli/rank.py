"""``fleetrec run`` as one of several ranks."""

import contextlib
import logging
import secrets
import time
from collections.abc import Callable, Sequence

from fleetrec.cli.logs import run_log
from fleetrec.cli.one_of_several import with_own_results, worker_observer
from fleetrec.cli.signals import StopRequest
from fleetrec.config.job import RunOptions
from fleetrec.core.place import Place
from fleetrec.parallel.device import resolve_device
from fleetrec.parallel.ranks import Ranks
from fleetrec.train.evaluator import Evaluator
from fleetrec.train.events import Observer
from fleetrec.train.passes import Surroundings
from fleetrec.train.report import write_report
from fleetrec.train.run_folder import RunFolder
from fleetrec.train.trainer import StoppedError, Trainer

logger = logging.getLogger(__name__)


def be_rank(
    run: RunOptions,
    folder: RunFolder,
    place: Place,
    *,
    resume: bool,
    watchers: Sequence[Observer],
    check: Callable[[], None] = lambda: None,
) -> None:
    """Do the part of one rank, together with the others.

    ``check`` looks whether a new run may begin, where no supervisor has done so.
    """
    device = resolve_device(run.device, local_index=place.local_rank)
    ranks = Ranks(place, device=device, timeout_s=run.cluster.rank_timeout_s)
    resume = resume or ranks.num_groups_before > 0
    run_id = folder.run_id() or secrets.token_hex(8)
    with contextlib.ExitStack() as stack:
        if ranks.is_chief and not place.is_supervised:
            if not resume:
                check()
            folder.begin(run_id, fresh=not resume)
            stack.enter_context(run_log(folder.log))
            stack.callback(write_report, folder, run)
        stop = stack.enter_context(StopRequest())
        around = Surroundings(
            clock=time.monotonic,
            run_id=run_id,
            folder=folder,
            observer=worker_observer(folder, index=place.rank, watchers=watchers),
            should_stop=stop.is_requested,
        )
        own = with_own_results(run, index=place.rank, count=place.size)
        try:
            _work(own, around, ranks, resume=resume)
        except StoppedError as error:
            logger.warning("%s", error)
            raise KeyboardInterrupt from error
        ranks.close()


def _work(run: RunOptions, around: Surroundings, ranks: Ranks, *, resume: bool) -> None:
    if run.kind == "train":
        Trainer(run, around, company=ranks).train(resume=resume)
    else:
        Evaluator(run, around, company=ranks).infer()
