"""Run in a pod of a job: wait until its workers have ended, then end its servers.

If the workers have succeeded, the servers are deleted, and with them their volumes. If they have
failed, the servers end but their volumes stay, and the job continues when it is submitted again.
"""

import argparse
import dataclasses
import json
import logging
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)

POLL_S = 5.0
TIMEOUT_S = 30.0
NOT_FOUND = 404
MERGE = "application/merge-patch+json"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """The API of the cluster, with the credentials that a pod has."""

    address: str
    credentials: Path

    def namespace(self) -> str:
        """Return the namespace of this pod."""
        return (self.credentials / "namespace").read_text(encoding="ascii").strip()

    def call(self, method: str, path: str, *, patch: Any = None) -> dict[str, Any] | None:
        """Return the answer to a request; None if there is no such object."""
        token = (self.credentials / "token").read_text(encoding="ascii").strip()  # may be renewed
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        body = None
        if patch is not None:
            body, headers["Content-Type"] = json.dumps(patch).encode(), MERGE
        request = urllib.request.Request(
            f"{self.address}{path}", data=body, headers=headers, method=method
        )
        try:
            with urllib.request.urlopen(
                request, timeout=TIMEOUT_S, context=self._tls()
            ) as response:
                return dict(json.load(response))
        except urllib.error.HTTPError as error:
            if error.code == NOT_FOUND:
                return None
            raise

    def _tls(self) -> ssl.SSLContext | None:
        if not self.address.startswith("https:"):
            return None
        return ssl.create_default_context(cafile=str(self.credentials / "ca.crt"))


def end_of(job: dict[str, Any]) -> str | None:
    """Return Complete or Failed, or None while a Job runs."""
    for condition in job.get("status", {}).get("conditions", ()):
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return str(condition["type"])
    return None


def end_servers(api: Api, *, workers: str, servers: str, poll_s: float = POLL_S) -> str:
    """Wait for the workers, then end the servers; returns how the workers ended."""
    namespace = api.namespace()
    job_path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{workers}"
    server_path = f"/apis/apps/v1/namespaces/{namespace}/statefulsets/{servers}"
    was_there = False
    while True:
        job = api.call("GET", job_path)
        end = None if job is None else end_of(job)
        if job is None and was_there:
            end = "deleted"
        if end is not None:
            break
        was_there = was_there or job is not None
        time.sleep(poll_s)
    if end == "Failed":
        api.call("PATCH", f"{server_path}/scale", patch={"spec": {"replicas": 0}})
    else:
        api.call("DELETE", server_path)
    return end


def main() -> int:
    """End the servers of one job; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m fleetrec.launch.end_servers", description=__doc__
    )
    parser.add_argument("--api", required=True, help="address of the Kubernetes API")
    parser.add_argument("--credentials", type=Path, required=True, help="folder of the account")
    parser.add_argument("--workers", required=True, help="the Job to wait for")
    parser.add_argument("--servers", required=True, help="the StatefulSet to end")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s")
    api = Api(address=given.api, credentials=given.credentials)
    try:
        end = end_servers(api, workers=given.workers, servers=given.servers)
    except OSError as error:  # the pod is restarted
        logger.error("the API does not answer: %s", error)
        return 1
    logger.info("workers: %s; the servers end", end)
    return 0


if __name__ == "__main__":
    sys.exit(main())
