"""The only reader of the environment: what a launcher told this process."""

import os

TOKEN = "FLEETREC_TOKEN"


def read_token() -> str | None:
    """Return the secret that the processes of a job share, if they have one."""
    return os.environ.get(TOKEN) or None
