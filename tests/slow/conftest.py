"""For slow tests: a real S3 server on this machine, and hosts of a cluster."""

import contextlib
import socket
import subprocess
import sys
import time

import pytest

from network_hosts import network_hosts
from slow.engine_jobs import NAMES, Expected

START_DEADLINE_S = 60.0


@pytest.fixture(scope="session")
def endpoint():
    pytest.importorskip("moto")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + START_DEADLINE_S
        while not is_open(port):
            assert server.poll() is None, "the server ended before it answered"
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(timeout=10)


def is_open(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@pytest.fixture
def bucket(endpoint, monkeypatch, tmp_path):
    """A bucket of this test, and the environment by which users name server and credentials."""
    settings = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    s3fs = pytest.importorskip("s3fs")
    s3fs.S3FileSystem.clear_instance_cache()
    name = f"b{time.monotonic_ns()}"
    s3fs.S3FileSystem().mkdir(name)
    yield name
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture(scope="session")
def expected(tmp_path_factory):
    """What the local cluster makes of the jobs that tests submit to hosts."""
    return Expected(tmp_path_factory.mktemp("expected"))


@pytest.fixture
def hosts(tmp_path):
    """Two hosts that are network namespaces of this machine."""
    with network_hosts(tmp_path, *NAMES) as hosts:
        yield hosts
