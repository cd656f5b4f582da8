"""States of jobs, by what the controllers of a cluster write."""

import pytest

from fleetrec.launch.kubernetes_status import status_of

JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {}}
VOLCANO = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {}}
PYTORCH = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {}}
TRAIN = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {}}
ONLINE = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {}}


def condition(kind, **words):
    return {"type": kind, "status": "True", **words}


@pytest.mark.parametrize(
    ("item", "status", "state"),
    [
        (JOB, {}, "pending"),
        (JOB, {"active": 2, "ready": 0}, "pending"),
        (JOB, {"active": 2, "ready": 1}, "running"),
        (JOB, {"conditions": [condition("Complete")]}, "succeeded"),
        (JOB, {"conditions": [{"type": "Complete", "status": "False"}], "ready": 1}, "running"),
        (JOB, {"conditions": [condition("Failed", reason="BackoffLimitExceeded")]}, "failed"),
        (VOLCANO, {}, "pending"),
        (VOLCANO, {"state": {"phase": "Running"}}, "running"),
        (VOLCANO, {"state": {"phase": "Completed"}}, "succeeded"),
        (VOLCANO, {"state": {"phase": "Aborted", "message": "a pod failed"}}, "failed"),
        (VOLCANO, {"state": {"phase": "New"}}, "unknown"),
        (PYTORCH, {"conditions": [condition("Created")]}, "pending"),
        (PYTORCH, {"conditions": [condition("Created"), condition("Running")]}, "running"),
        (PYTORCH, {"conditions": [condition("Running"), condition("Succeeded")]}, "succeeded"),
        (TRAIN, {"jobsStatus": [{"name": "node", "active": 1}]}, "running"),
        (TRAIN, {"conditions": [condition("Complete")]}, "succeeded"),
        (ONLINE, {"replicas": 2, "readyReplicas": 2}, "running"),
        (ONLINE, {"replicas": 2}, "pending"),
    ],
)
def test_a_state_follows_from_the_status(item, status, state):
    assert status_of({**item, "status": status}).state == state


def test_the_words_of_the_cluster_are_kept():
    status = {"conditions": [condition("Failed", reason="BackoffLimitExceeded", message="no")]}
    assert status_of({**JOB, "status": status}).detail == "Failed BackoffLimitExceeded no"
    assert status_of({**JOB, "status": {"active": 2, "ready": 1}}).detail == "active: 2, ready: 1"


def test_a_job_that_is_being_deleted_is_cancelled():
    item = {**JOB, "metadata": {"deletionTimestamp": "2026-11-18T20:12:00Z"}}
    assert status_of(item).state == "cancelled"
