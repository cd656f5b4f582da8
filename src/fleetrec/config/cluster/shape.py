"""What processes a job asks for, in either dialect."""

import dataclasses
from typing import Literal

from fleetrec.config.job import Job
from fleetrec.core.errors import ConfigError

FleetMode = Literal["ps", "collective", "single"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JobShape:
    """How the processes of a job train together.

    ``single`` is a job of one process. ``device`` is None if the job trains on the GPUs that it is
    given. ``num_threads`` is the largest number of its phases.
    """

    fleet_mode: FleetMode
    device: Literal["cpu", "gpu"] | None = "cpu"
    num_threads: int = 1

    @property
    def has_servers(self) -> bool:
        """Whether workers push to servers."""
        return self.fleet_mode == "ps"


def shape_of(job: Job, *, is_pipeline: bool) -> JobShape:
    """Return the shape that all runs of a job have.

    Raises:
        ConfigError: They start their processes themselves, or differ.
    """
    problems = [
        f"{job.source}: runner {run.name}: class local_cluster starts its processes on one "
        "machine; use class: cluster_train to submit it"
        for run in job.runs
        if run.engine == "local_cluster"
    ]
    if problems:
        raise ConfigError(problems)
    runs = [run for run in job.runs if run.engine == "cluster"] or list(job.runs)
    threads = [phase.dataset.thread_num or 1 for run in job.runs for phase in run.phases]
    is_single = all(run.engine == "single" for run in job.runs)
    modes = sorted({(run.cluster.fleet_mode, run.device.kind) for run in runs})
    if len(modes) > 1:
        found = ", ".join(
            f"{run.name} ({run.cluster.fleet_mode}, {run.device.kind})" for run in runs
        )
        raise ConfigError(
            [f"{job.source}: runners of one job must have one fleet_mode and device, got {found}"]
        )
    fleet_mode, device = modes[0]
    if fleet_mode == "pslib":
        raise ConfigError([f"{job.source}: fleet_mode pslib is not available; use fleet_mode: ps"])
    return JobShape(
        fleet_mode="single" if is_single else fleet_mode,
        device=None if is_pipeline else device,
        num_threads=max(threads),
    )
