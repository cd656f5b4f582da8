"""A model that is served on Kubernetes: its pods run as processes, and answer."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from fleetrec.core.env import environment_with
from making_serving import ServingRun, feeds_of
from multiprocess import kubectl_double
from multiprocess.kubernetes_double import Cluster, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.multiprocess]
NAMES = ("dense_feature", "1", "2", "3")


def fleetrec(folder, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "fleetrec", *arguments],
        cwd=folder,
        env=environment_with({"FLEETREC_TOKEN": "s3cret"}, unless_set={}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def ask(pod, feeds, *, token):
    request = urllib.request.Request(
        f"http://{pod.ip}:8000/predict",
        data=json.dumps(feeds).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_a_model_is_served_by_the_pods_of_a_deployment(tmp_path, monkeypatch):
    run = ServingRun(tmp_path / "run")
    run.make_version()
    feeds = feeds_of(run.batches[0], NAMES)
    feeds["dense_feature"] = feeds["dense_feature"].tolist()
    (tmp_path / "backend.yaml").write_text(
        "backend: kubernetes\nsubmit: {job_name: ctr, workers: 2}\n"
        f"kubernetes: {{image: fleetrec, claims: {{models: {tmp_path}/run}}}}\n"
    )
    with Cluster(tmp_path / "cluster", claims={"models": tmp_path / "run"}) as cluster:
        programs = kubectl_double.install(tmp_path / "bin", api=cluster.api)
        monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
        printed = fleetrec(
            tmp_path, "submit", "--serve", f"{run.place}/model-1", "-b", "backend.yaml"
        )
        assert "s3cret" not in printed
        assert "submitted: ctr\n" in printed
        (folder,) = tmp_path.glob("ctr_*")
        wait_for(lambda: "ctr: running" in fleetrec(tmp_path, "job", "status", folder), "pods")
        pods = cluster.pods_of("ctr")
        wait_for(lambda: all(pod.is_ready() for pod in pods), "the model in every pod")
        answers = [ask(pod, feeds, token="s3cret") for pod in pods]
        assert answers[0] == answers[1]
        with pytest.raises(urllib.error.HTTPError, match="401"):
            ask(pods[0], feeds, token="wrong")
        os.killpg(pods[0].process.pid, signal.SIGKILL)
        wait_for(lambda: pods[0].num_starts > 1 and pods[0].is_ready(), "a restarted pod")
        assert ask(pods[0], feeds, token="s3cret") == answers[0]
        fleetrec(tmp_path, "submit", str(folder))  # again, while it serves
        fleetrec(tmp_path, "job", "cancel", str(folder))
        assert not cluster.objects
        assert "s3cret" not in Path(folder / "kubernetes/4-workers.yaml").read_text()
