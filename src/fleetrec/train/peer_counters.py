"""What other workers of servers have counted in a pass that is not over."""

import logging
from collections.abc import Sequence

from fleetrec.core.progress import Progress
from fleetrec.parallel.worker_payload import progress_within
from fleetrec.train.context import RunContext
from fleetrec.train.metric_journal import journal_path, read_counters
from fleetrec.train.phase import Phase

logger = logging.getLogger(__name__)


def peer_counters(
    phases: Sequence[Phase],
    context: RunContext,
    phase: Phase,
    progress: Progress,
    by_worker: Sequence[bytes],
) -> list[bytes]:
    """Return what other workers of servers have counted in a pass that is not over.

    Their journals have the counters of every step that the servers have.
    """
    found: list[bytes] = []
    for rank, path in context.peer_journals.items():
        its = progress_within(by_worker, rank, progress)
        if its is None or phases[its.phase].name != phase.name:
            continue
        path_of_phase = journal_path(path, phase.name, num_phases=len(phases))
        counters = read_counters(path_of_phase, its)
        if not counters:
            logger.warning(
                "%s: cannot be read here up to step %d; if the run is resumed from this "
                "checkpoint, the metrics of epoch %d lack the earlier samples of worker %d",
                path_of_phase,
                its.step,
                progress.pass_index,
                rank,
            )
        found += counters
    return found
