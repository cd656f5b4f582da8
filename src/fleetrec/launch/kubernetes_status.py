"""The state of a job, by the object of its workers."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from fleetrec.launch.engine import JobState, JobStatus

ENDS: Mapping[str, JobState] = MappingProxyType(
    {
        "Complete": "succeeded",  # Job, TrainJob
        "Succeeded": "succeeded",  # PyTorchJob
        "Failed": "failed",
    }
)
PHASES: Mapping[str, JobState] = MappingProxyType(
    {  # of Volcano
        "Pending": "pending",
        "Running": "running",
        "Restarting": "running",
        "Completing": "running",
        "Completed": "succeeded",
        "Aborting": "running",
        "Terminating": "running",
        "Aborted": "failed",
        "Terminated": "failed",
        "Failed": "failed",
    }
)
COUNTS = ("active", "ready", "succeeded", "failed", "readyReplicas", "replicas")
RUNNING_COUNTS = ("ready", "readyReplicas", "succeeded")


def status_of(workload: Mapping[str, Any]) -> JobStatus:
    """Return the state of a job."""
    status = workload.get("status", {})
    if "metadata" in workload and workload["metadata"].get("deletionTimestamp"):
        return JobStatus(state="cancelled", detail="is being deleted")
    if workload["apiVersion"].startswith("batch.volcano.sh"):
        state = status.get("state", {})
        phase = state.get("phase", "Pending")
        words = " ".join(filter(None, (phase, state.get("message", ""))))
        return JobStatus(state=PHASES.get(phase, "unknown"), detail=words)
    for condition in status.get("conditions", ()):
        if condition["type"] in ENDS and condition["status"] == "True":
            said = (condition["type"], condition.get("reason"), condition.get("message"))
            return JobStatus(state=ENDS[condition["type"]], detail=" ".join(filter(None, said)))
    return _unfinished(workload, status)


def _unfinished(workload: Mapping[str, Any], status: Mapping[str, Any]) -> JobStatus:
    counts = ", ".join(f"{name}: {status[name]}" for name in COUNTS if status.get(name))
    running = any(
        condition["type"] == "Running" and condition["status"] == "True"
        for condition in status.get("conditions", ())
    )
    if workload["kind"] == "TrainJob":
        counts = ", ".join(
            f"{job.get('name')}: {job.get('active', 0)} active"
            for job in status.get("jobsStatus", ())
        )
        running = any(job.get("active") for job in status.get("jobsStatus", ()))
    is_up = running or any(status.get(name) for name in RUNNING_COUNTS)
    return JobStatus(state="running" if is_up else "pending", detail=counts)
