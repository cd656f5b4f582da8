"""Submit jobs to hosts by mpirun of Open MPI."""

import os
import secrets
import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fleetrec.core.errors import ConfigError, UnavailableError
from fleetrec.launch.detached import Detached
from fleetrec.launch.engine import Engine, JobStatus, SubmittedJob
from fleetrec.launch.hosts import assign_to_hosts, parse_hosts, read_hostfile
from fleetrec.launch.job_logs import log_lines
from fleetrec.launch.job_spec import JobSpec
from fleetrec.launch.log_tail import log_tail
from fleetrec.launch.script import ADDRESS, agent_command, python_on_nodes, write_script
from fleetrec.launch.stored_job import StoredJob, write_stored_job

if TYPE_CHECKING:
    from fleetrec.config.cluster.mpi import MpiOptions

SCRIPT = "mpirun.sh"
RUNS = "mpi"
LOCALHOST = "localhost"
CANCEL_TIMEOUT_S = 30.0
NUM_PROBES = 5  # that a host may miss


class MpiEngine(Engine):
    """Starts one agent on each host, which runs the servers and workers of that host.

    The job folder must be at the same path on all hosts. ``submit`` returns at once; mpirun then
    runs in a session of its own, with its files below ``mpi/<job id>``.
    """

    def __init__(self, options: "MpiOptions") -> None:
        self._options = options

    def render(self, job: JobSpec, folder: Path) -> list[Path]:
        """Write the job and the script that calls mpirun."""
        options = self._options
        if options.hostfile is not None:
            hosts = read_hostfile(options.hostfile)
        else:
            hosts = parse_hosts(options.hosts or (LOCALHOST,))
        assigned = assign_to_hosts(job, hosts)
        stored = StoredJob(job=job, tasks=tuple(assigned.values()))
        paths = write_stored_job(stored, folder)
        script = self._script(list(assigned), python=python_on_nodes(job))
        return [*paths, write_script(folder / SCRIPT, script)]

    def submit(self, folder: Path) -> SubmittedJob:
        """Start the script, detached from this process."""
        if not (folder / SCRIPT).is_file():
            raise ConfigError([f"{folder}: no {SCRIPT}; this is not a job for MPI"])
        if shutil.which(self._options.mpirun) is None:
            raise UnavailableError(
                f"{self._options.mpirun}: not found; install Open MPI, or submit on a host with it"
            )
        job_id = secrets.token_hex(4)
        run = _run(folder, job_id)
        run.start(["/bin/bash", SCRIPT, job_id], cwd=folder)
        return SubmittedJob(job_id=job_id, follow=(f"tail -F {shlex.quote(str(run.log))}",))

    def status(self, folder: Path, job_id: str) -> JobStatus:
        """Return the state of mpirun, which ends with the job."""
        run = _run(folder, job_id)
        exit_status = run.exit_status()
        if run.is_cancelled and not run.is_running():
            return JobStatus(state="cancelled")
        if exit_status is None and run.is_running():
            return JobStatus(state="running")
        if exit_status == 0:
            return JobStatus(state="succeeded")
        how = "mpirun was killed" if exit_status is None else f"exit status {exit_status}"
        last = [line for line in log_tail(run.log) if line.strip("- \t")]
        errors = [line for line in last if line.startswith("error: ")]
        return JobStatus(state="failed", detail="; ".join([how, *(errors or last)[-1:]]))

    def logs(self, folder: Path, job_id: str) -> Iterator[str]:
        """Return the output of mpirun and of all processes."""
        return log_lines(folder, _run(folder, job_id).log)

    def cancel(self, folder: Path, job_id: str) -> None:
        """End mpirun, which ends all processes."""
        _run(folder, job_id).cancel(timeout_s=CANCEL_TIMEOUT_S)

    def _script(self, hosts: Sequence[str], *, python: str) -> list[str]:
        options = self._options
        contexts = [f'-host {host}:1 -np 1 -wdir "$PWD" "$@"' for host in hosts]
        agent = agent_command(port=options.port, restarts=options.max_restarts)
        address = [*ADDRESS, "--peers", ",".join(hosts)]
        if options.interface is not None:
            address += ["--interface", options.interface]
        return [
            "# Runs the job of this folder by Open MPI: bash mpirun.sh JOB_ID",
            "set -euo pipefail",
            'cd "$(dirname "$0")"',
            "job_id=${1:?expected the id of the job}",
            "rm -f logs/server.* logs/worker.*",
            "",
            "# One task on each host, in the order of the tasks in tasks.json.",
            "on_hosts() {",
            f"  {shlex.join(self._mpirun())} \\",
            " : \\\n".join(f"    {context}" for context in contexts) + " </dev/null",
            "}",
            "",
            f"python={shlex.quote(python)}",
            f'addresses=$(on_hosts "$python" {shlex.join(address)})',
            f'on_hosts "$python" {agent}',
        ]

    def _mpirun(self) -> list[str]:
        options = self._options
        words = [options.mpirun, "--bind-to", "none"]
        if os.geteuid() == 0:
            words.append("--allow-run-as-root")
        if options.remote_shell is not None:
            words += ["--mca", "plm_rsh_agent", options.remote_shell]
        if options.interface is not None:
            words += ["--mca", "oob_tcp_if_include", options.interface]
        probing = {
            "time": options.host_timeout // 2,
            "intvl": options.host_timeout // 2 // NUM_PROBES,
            "probes": NUM_PROBES,
        }
        for name, value in probing.items():
            words += ["--mca", f"oob_tcp_keepalive_{name}", str(value)]
        return [*words, *options.arguments]


def _run(folder: Path, job_id: str) -> Detached:
    return Detached((folder / RUNS / job_id).resolve())
