"""``fleetrec run``: from flags to a job."""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

from fleetrec.cli.jobs import JobStart, run_job
from fleetrec.config.document import read_document
from fleetrec.config.load import JobRequest, asks_for_cluster
from fleetrec.config.pipeline_dialect.decode import ONE_PROCESS
from fleetrec.config.processes import started_processes
from fleetrec.config.yaml_dialect.node_variables import NodeVariables
from fleetrec.core.env import (
    is_cluster_node,
    read_communicator_flags,
    read_cpu_num,
    read_place,
)
from fleetrec.core.errors import ConfigError


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunRequest:
    """The arguments of the command."""

    model: str
    overrides: Sequence[str] = ()
    log_dir: Path | None = None
    only: str | None = None

    def job_request(self) -> JobRequest:
        """Return the job to load."""
        place = read_place()
        processes = ONE_PROCESS if place is None else started_processes(place)
        return JobRequest(
            source=self.model,
            overrides=self.overrides,
            processes=processes,
            variables=NodeVariables(
                communicator=read_communicator_flags(), num_threads=read_cpu_num()
            ),
        )

    def command(self) -> tuple[str, ...]:
        """Return the command of a process that takes part in the same job."""
        words = ["-m", self.model, *(word for text in self.overrides for word in ("-o", text))]
        logs = [] if self.log_dir is None else ["--log-dir", str(self.log_dir)]
        return (sys.executable, "-m", "fleetrec.run", *words, *logs)


def run_command(request: RunRequest, *, backend: Path | None = None, resume: bool = False) -> None:
    """Run every runner of a job; the first failure ends it. Jobs for a cluster are submitted."""
    notices = []
    if backend is not None and not is_cluster_node():
        check_backend(backend)
        if read_place() is not None:
            notices.append(f"{backend} is not used: a launcher has started this process")
        elif asks_for_cluster(JobRequest(source=request.model, overrides=request.overrides)):
            from fleetrec.cli.submit import submit_command
            from fleetrec.cli.submit_plan import SubmitRequest

            submit_command(
                SubmitRequest(
                    model=request.model,
                    backend_file=backend,
                    overrides=request.overrides,
                    log_dir=request.log_dir,
                    resume=resume,
                )
            )
            return
        else:
            notices.append(
                f"{backend} is not used: no runner of mode has class: cluster_train; fleetrec "
                "submit runs the job on a cluster nevertheless"
            )
    run_job(
        request.job_request(),
        JobStart(
            command=request.command(),
            resume=resume,
            log_dir=request.log_dir,
            only=request.only,
            notices=notices,
        ),
    )


def check_backend(path: Path) -> None:
    """Refuse a file that cannot describe a cluster, also if the job does not need it."""
    if not path.is_file():
        raise ConfigError([f"-b {path}: no such file"])
    if not isinstance(read_document(path).data, dict):
        raise ConfigError([f"-b {path}: expected a mapping with backend, config, submit, ..."])
