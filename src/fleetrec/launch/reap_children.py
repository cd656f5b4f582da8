"""Kills process groups when the supervisor is gone; run by path, without the package.

Reads lines from its input: ``+12`` adds process group 12 to those that die with the supervisor,
``-12`` removes it. The end of the input is the end of the supervisor.
"""

import contextlib
import os
import signal
import sys


def main() -> None:
    """Wait for the end of the input, then kill the groups that are left."""
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
