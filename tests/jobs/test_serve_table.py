"""``fleetrec serve-table``: rows of a checkpoint for whoever asks."""

import contextlib
import re
import signal
import subprocess
import sys
import urllib.request

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from fleetrec.core.env import environment_with
from fleetrec.core.errors import ConfigError
from fleetrec.server.client import ClientOptions, ServerClient, ServerError
from fleetrec.server.table_reader import TableReader
from fleetrec.server.wire import Kind, Message
from making import columns_of, make_data, make_job, run, tables_of, write_job
from multiprocess.cluster import free_port

pytestmark = pytest.mark.multiprocess

TOKEN = "of this test"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    job = make_job(make_data(folder / "data", num_samples=64), epochs=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run(write_job(job, folder / "job.yaml"))
    return folder / "ckpt" / "0"


def command(checkpoint, *options):
    return [sys.executable, "-m", "fleetrec", "serve-table", str(checkpoint), *options]


@contextlib.contextmanager
def serving(checkpoint, *options):
    """Serve on a free port, and end well when told to."""
    told = command(checkpoint, "--endpoint", "127.0.0.1:0", *options)
    env = environment_with({"FLEETREC_TOKEN": TOKEN}, unless_set={})
    with subprocess.Popen(told, env=env, stdout=subprocess.PIPE, text=True) as child:
        try:
            (endpoint,) = re.findall(r"are served on (\S+)", child.stdout.readline())
            yield endpoint
            child.send_signal(signal.SIGTERM)
            assert child.wait(timeout=60) == 0
        finally:
            child.kill()


def test_rows_are_those_of_the_checkpoint(checkpoint):
    expected = {name: columns_of(stored) for _, name, stored in tables_of(checkpoint)}
    port = free_port()
    with (
        serving(checkpoint, "--metrics-port", str(port)) as endpoint,
        TableReader(endpoint, token=TOKEN) as reader,
    ):
        assert reader.dims == {name: its["rows"].shape[1] for name, its in expected.items()}
        num_read = 0
        for name, its in expected.items():
            ids_N = its["ids"].view(np.int64)
            found = reader.read(name, ids_N)
            assert np.array_equal(found.rows_ND, its["rows"])
            assert found.is_there_N.all()
            assert reader.stats()[name]["rows"] == len(ids_N)
            num_read += len(ids_N)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            page = answer.read().decode()
        assert f"fleetrec_rows_read_total {float(num_read)}" in page
        for name, its in expected.items():
            assert f'fleetrec_table_rows{{table="{name}"}} {float(len(its["ids"]))}' in page
        assert re.search(r"fleetrec_bytes_out_total [1-9]", page)
        with grpc.insecure_channel(endpoint) as channel:
            health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert health.status == health_pb2.HealthCheckResponse.SERVING


def test_nothing_can_be_changed_and_strangers_get_nothing(checkpoint):
    with serving(checkpoint) as endpoint:
        client = ServerClient(endpoint, ClientOptions(token=TOKEN, give_up_s=30))
        with contextlib.closing(client):
            for kind in (Kind.CLEAR, Kind.PUSH, Kind.SETUP, Kind.LOAD, Kind.SAVE, Kind.GATHER):
                with pytest.raises(ServerError, match=f"{kind.name}: this server is read-only"):
                    client.call(Message(kind=kind))
            with pytest.raises(ServerError, match="this server is read-only"):
                client.call(Message(kind=Kind.PULL, sequence=1))
        with TableReader(endpoint, token=TOKEN) as reader:
            with pytest.raises(ConfigError, match="no table is called 'other'; the server has"):
                reader.read("other", [1])
            found = reader.read(next(iter(reader.dims)), [999])
            assert not found.is_there_N.any()
            assert not found.rows_ND.any()
        with pytest.raises(ServerError, match="the token is missing or wrong"):
            TableReader(endpoint)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--phase", "nobody"], "--phase: expected one of learn, got nobody"),
        (["--endpoint", "0.0.0.0:7000"], "set FLEETREC_TOKEN"),
    ],
)
def test_a_mistake_is_told_in_one_line(checkpoint, options, message):
    done = subprocess.run(
        command(checkpoint, *options), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
