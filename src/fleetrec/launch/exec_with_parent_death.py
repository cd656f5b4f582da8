"""Executes a command that dies with its supervisor: ``... SUPERVISOR_PID COMMAND...``.

Run by path, without the package, so that it costs next to nothing.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
CANNOT_START = 127  # as a shell says it


def main() -> None:
    """Ask the kernel for SIGKILL on the death of the parent, then become the command."""
    supervisor, *command = sys.argv[1:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(supervisor):  # it died before we asked
        sys.exit(CANNOT_START)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)  # a background job inherits SIGINT ignored
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: cannot be started: {error.strerror}\n")
        sys.exit(CANNOT_START)


if __name__ == "__main__":
    main()
