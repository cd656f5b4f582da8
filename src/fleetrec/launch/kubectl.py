"""The client of Kubernetes, and what it answers."""

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fleetrec.core.errors import UnavailableError

KUBECTL = "kubectl"
TIMEOUT_S = 600.0


def run_kubectl(arguments: Sequence[str], *, timeout_s: float = TIMEOUT_S) -> str:
    """Run the client; returns what it prints, or raises an error with what it says."""
    try:
        done = subprocess.run(
            [_client(), *arguments], capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(
            f"{KUBECTL} {' '.join(arguments)}: no answer within {timeout_s:g} s"
        ) from error
    if done.returncode != 0:
        raise UnavailableError(
            f"{KUBECTL} {' '.join(arguments)}: exit status {done.returncode}: {done.stderr.strip()}"
        )
    return done.stdout


def apply(path: Path) -> None:
    """Create or change what the files of a folder describe.

    The server merges: the client would write a copy of each object into it, which must be small.
    """
    run_kubectl(["apply", "--server-side", "--force-conflicts", "-f", str(path)])


def delete(path: Path, *, timeout_s: float) -> None:
    """Delete what the files describe, if it is there, and wait until it is gone."""
    run_kubectl(
        ["delete", "-f", str(path), "--ignore-not-found", "--cascade=foreground"],
        timeout_s=timeout_s,
    )


def get(kind: str, name: str, *, namespace: str) -> dict[str, Any] | None:
    """Return an object, or None if there is none."""
    answer = run_kubectl(
        ["get", kind, name, f"--namespace={namespace}", "--ignore-not-found", "--output=json"]
    )
    return dict(json.loads(answer)) if answer.strip() else None


def stream(arguments: Sequence[str]) -> Iterator[str]:
    """Run the client, and return the lines that it prints while it runs."""
    with subprocess.Popen(
        [_client(), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                yield line.rstrip("\n")
        finally:
            process.terminate()


def _client() -> str:
    found = shutil.which(KUBECTL)
    if found is None:
        raise UnavailableError(
            f"{KUBECTL}: not found; install the client of Kubernetes and log in to the cluster, or "
            f"run `{KUBECTL} apply --server-side -f` with the rendered folder where it is"
        )
    return found
