"""Kills process groups when the supervisor is gone; run by path, without the package.

Reads lines from its input: ``+12`` means that group 12 is to die with the supervisor, ``-12`` that
it is over. The end of the input is the end of the supervisor.
"""

import contextlib
import os
import signal
import sys


def main() -> None:
    """Wait for the end, then kill what is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        change = groups.add if line[0] == "+" else groups.discard
        change(int(line[1:]))
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
