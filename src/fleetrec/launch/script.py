"""Scripts that start one agent for each task of a job."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from fleetrec.launch.job_spec import JobSpec

ADDRESS = ("-m", "fleetrec.launch.node_address")
AGENT = ("-m", "fleetrec.cli.node_agent")


def write_script(path: Path, lines: Sequence[str]) -> Path:
    """Write a script of bash that can be executed."""
    path.write_text("\n".join(["#!/bin/bash", *lines, ""]), encoding="utf-8")
    path.chmod(0o755)
    return path


def python_on_nodes(job: JobSpec) -> str:
    """Return the interpreter that has FleetRec on the nodes.

    That is the one of the workers, if they run a module of FleetRec, else that of this process.
    """
    command = job.workers.command
    is_own = command[1:2] == ("-m",) and "".join(command[2:3]).partition(".")[0] == "fleetrec"
    return command[0] if is_own else sys.executable


def agent_command(*, port: int | None, restarts: int) -> str:
    """Return the words after the interpreter that start an agent, in the script of an engine.

    The script has the id of the job and the addresses of its nodes in variables.
    """
    words = [*AGENT, "--max-restarts", str(restarts)]
    if port is not None:
        words += ["--port", str(port)]
    return f'{shlex.join(words)} --job-id "$job_id" --addresses "$addresses"'
