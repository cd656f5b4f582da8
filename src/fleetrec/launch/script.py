"""Scripts that start one agent for each task of a job."""

import shlex
from collections.abc import Sequence
from pathlib import Path

ADDRESS = ("-m", "fleetrec.launch.node_address")
AGENT = ("-m", "fleetrec.cli.node_agent")


def write_script(path: Path, lines: Sequence[str]) -> Path:
    """Write a script of bash that can be executed."""
    path.write_text("\n".join(["#!/bin/bash", *lines, ""]), encoding="utf-8")
    path.chmod(0o755)
    return path


def agent_command(*, port: int | None, restarts: int) -> str:
    """Return the words after the interpreter that start an agent, in the script of an engine.

    The script has the id of the job and the addresses of its nodes in variables.
    """
    words = [*AGENT, "--max-restarts", str(restarts)]
    if port is not None:
        words += ["--port", str(port)]
    return f'{shlex.join(words)} --job-id "$job_id" --addresses "$addresses"'
