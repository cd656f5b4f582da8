"""Becomes one rank of the job in the current folder; torchrun starts it."""

import os
import sys
from pathlib import Path

from fleetrec.core.env import environment_with, read_place
from fleetrec.core.errors import FleetRecError
from fleetrec.launch.child import EXEC
from fleetrec.launch.stored_job import LOG_FOLDER, read_stored_job


def main() -> None:
    """Execute the command of the workers, with its output in the log of this rank."""
    try:
        job = read_stored_job(Path()).job
        place = read_place()
    except FleetRecError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    rank = 0 if place is None else place.rank
    log = Path(LOG_FOLDER) / job.workers.log(rank)
    log.parent.mkdir(exist_ok=True)
    with log.open("ab") as stream:
        for number in (1, 2):
            os.dup2(stream.fileno(), number)
    env = environment_with({**job.env, **job.workers.environment(rank)}, unless_set={})
    command = [sys.executable, "-I", "-S", str(EXEC), str(os.getppid()), *job.workers.command]
    os.execve(sys.executable, command, env)


if __name__ == "__main__":
    main()
