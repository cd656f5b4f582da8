"""The end of a process whose work is done."""

import logging
import os
import sys
from typing import NoReturn


def exit_now(status: int) -> NoReturn:
    """End this process without taking the interpreter apart.

    With torch loaded that takes half a second of CPU time, and a job waits for it twice: for its
    workers, then for its servers. Whoever calls has closed what he opened.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
