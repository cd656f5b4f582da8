"""The only reader of the environment: what a launcher told this process."""

import os
from pathlib import Path

TOKEN = "FLEETREC_TOKEN"
AUTHORITY = "FLEETREC_TLS_AUTHORITY"


def read_token() -> str | None:
    """Return the secret that the processes of a job share, if they have one."""
    return os.environ.get(TOKEN) or None


def read_authority() -> Path | None:
    """Return the file of certificates that workers believe, if servers use TLS."""
    path = os.environ.get(AUTHORITY)
    return Path(path) if path else None
