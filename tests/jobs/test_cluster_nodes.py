"""Variables that a cluster job sets on its nodes reach the runner."""

import pytest

from fleetrec.cli.job import load_requested
from fleetrec.cli.run import RunRequest, run_command
from fleetrec.core.errors import ConfigError

REQUEST = RunRequest(model="rank/dnn", overrides=["mode=local_cluster_cpu_train"])


def test_flags_of_the_environment_reach_the_runner(monkeypatch):
    monkeypatch.setenv("FLAGS_communicator_thread_pool_size", "9")
    (run,) = load_requested(REQUEST.job_request()).runs
    assert run.cluster.communicator.thread_pool_size == 9


def test_a_wrong_flag_names_the_environment(monkeypatch):
    monkeypatch.setenv("FLAGS_communicator_thread_pool_sise", "9")
    with pytest.raises(ConfigError, match=r"environment: .*thread_pool_sise: unknown key"):
        load_requested(REQUEST.job_request())


def test_a_wrong_number_of_threads_is_refused(monkeypatch):
    monkeypatch.setenv("CPU_NUM", "none")
    with pytest.raises(ConfigError, match="CPU_NUM: expected a whole number of at least 1"):
        REQUEST.job_request()


def test_a_node_does_not_read_the_backend_file(monkeypatch, tmp_path):
    request = RunRequest(model="no_such_job.yaml")
    missing = tmp_path / "backend.yaml"
    with pytest.raises(ConfigError, match="no such file"):
        run_command(request, backend=missing)
    monkeypatch.setenv("PADDLE_PADDLEREC_ROLE", "WORKER")
    with pytest.raises(ConfigError, match="no_such_job"):
        run_command(request, backend=missing)
