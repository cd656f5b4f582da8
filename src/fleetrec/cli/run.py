"""``fleetrec run``: from flags to a job."""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

from fleetrec.cli.jobs import JobStart, run_job
from fleetrec.config.document import read_document
from fleetrec.config.load import JobRequest
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
    """Run every runner of a job; the first failure ends it."""
    notices = []
    if backend is not None and not is_cluster_node():
        check_backend(backend)
        notices.append(f"{backend} is not used: this version submits no cluster jobs")
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
    """Refuse a file that cannot describe a cluster. This version does not submit to any."""
    if not path.is_file():
        raise ConfigError([f"-b {path}: no such file"])
    if not isinstance(read_document(path).data, dict):
        raise ConfigError([f"-b {path}: expected a mapping with backend, config, submit, ..."])
