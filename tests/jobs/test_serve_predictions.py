"""``fleetrec serve``: a real server, its clients, and what it refuses."""

import concurrent.futures
import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from fleetrec.export.manifest import open_model
from fleetrec.export.predictor import Predictor
from making_served import ask, command, served
from making_serving import DAY_S, ServingRun, feeds_of

pytestmark = pytest.mark.multiprocess

NAMES = ("dense_feature", "1", "2", "3")
TOKEN = "of this test"
INFER = "/v2/models/model/infer"
SLOW = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"  # and no more
ATOL = 1e-6  # sums of another order in batches of another size


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with a base, two deltas, and a base."""
    run = ServingRun(tmp_path_factory.mktemp("run"))
    for _ in range(3):
        run.make_version()
    run.make_version(kind="base")
    return run


@pytest.fixture(scope="module")
def model(run):
    return f"{run.place}/model-1"


@pytest.fixture(scope="module")
def server(model):
    with served(model, "--max-request-bytes", 200_000, "--max-samples", 1000) as server:
        yield server


@pytest.fixture(scope="module")
def feeds(run):
    """Feeds of some batches, as lists."""
    found = [feeds_of(batch, NAMES) for batch in run.batches]
    return [{**one, "dense_feature": one["dense_feature"].tolist()} for one in found]


def tensors_of(feeds):
    """Return feeds as tensors: ids are flat with lengths."""
    tensors = {"dense_feature": np.array(feeds["dense_feature"], np.float32)}
    for name in NAMES[1:]:
        tensors[name] = np.array([i for one in feeds[name] for i in one], np.int64)
        tensors[f"{name}.lengths"] = np.array([len(one) for one in feeds[name]], np.int64)
    return tensors


def v2_request(tensors, **more):
    kinds = {"f": "FP32", "i": "INT64"}
    inputs = [
        {
            "name": name,
            "datatype": kinds[values.dtype.kind],
            "shape": list(values.shape),
            "data": values.reshape(-1).tolist(),
        }
        for name, values in tensors.items()
    ]
    return {"inputs": inputs, **more}


def triton_inputs(tensors, *, binary):
    inputs = []
    for name, values in tensors.items():
        kind = "FP32" if values.dtype == np.float32 else "INT64"
        inputs.append(triton.InferInput(name, values.shape, kind))
        inputs[-1].set_data_from_numpy(values, binary_data=binary)
    return inputs


def test_the_server_describes_itself(server):
    assert server.ask("GET", "/v2").json["name"] == "fleetrec"
    for path in ("health/live", "health/ready", "models/model/ready"):
        assert server.ask("GET", f"/v2/{path}").status == 200
    described = server.ask("GET", "/v2/models/model").json
    assert described["versions"] == [str(DAY_S)]
    assert {"name": "dense_feature", "datatype": "FP32", "shape": [-1, 2]} in described["inputs"]
    assert [one["name"] for one in described["outputs"]] == ["logit", "predict"]
    assert server.ask("GET", f"/v2/models/model/versions/{DAY_S}").json == described


def test_concurrent_requests_of_all_kinds_get_the_answers_of_a_predictor(server, model, feeds):
    predictor = Predictor(model)
    expected = [predictor.predict(one) for one in feeds]

    def ask_often(number):
        with contextlib.closing(server.connect()) as connection:
            for turn in range(20):
                place = (number + turn) % len(feeds)
                one, answer = feeds[place], expected[place]
                if turn % 3 == 0:
                    content, path = one, "/predict"
                elif turn % 3 == 1:
                    content, path = v2_request(tensors_of(one), id=f"{number}.{turn}"), INFER
                else:
                    instances = [
                        dict(zip(one, values, strict=True))
                        for values in zip(*one.values(), strict=True)
                    ]
                    content, path = {"instances": instances}, "/predict"
                reply = ask(connection, "POST", path, json.dumps(content))
                assert reply.status == 200, reply.content
                found = reply.json
                if path == INFER:
                    assert found["id"] == f"{number}.{turn}"
                    assert found["model_version"] == str(DAY_S)
                    assert found["parameters"] == {"fingerprint": predictor.fingerprint}
                    outputs = {output["name"]: output["data"] for output in found["outputs"]}
                else:
                    assert found.pop("version") == str(DAY_S)
                    outputs = found
                assert outputs.keys() == answer.keys()
                for name, values in answer.items():
                    np.testing.assert_allclose(outputs[name], values, atol=ATOL, rtol=0)

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        assert len(list(threads.map(ask_often, range(8)))) == 8
    page = server.ask("GET", "/metrics").content.decode()
    assert 'fleetrec_serving_requests_total{code="200"}' in page
    assert "fleetrec_serving_rows 30.0" in page


@pytest.mark.parametrize("binary", [True, False])
def test_the_client_of_triton_gets_the_answers_of_a_predictor(server, model, feeds, binary):
    predictor = Predictor(model)
    # gevent, on which this client is built, needs one client per thread.

    def ask_often(number):
        client = triton.InferenceServerClient(f"127.0.0.1:{server.port}")
        assert client.is_server_ready()
        assert client.is_model_ready("model")
        for one in feeds:
            inputs = triton_inputs(tensors_of(one), binary=binary)
            result = client.infer("model", inputs, request_id=str(number))
            assert result.get_response()["id"] == str(number)
            for name, values in predictor.predict(one).items():
                np.testing.assert_allclose(result.as_numpy(name), values, atol=ATOL, rtol=0)
        outputs = [triton.InferRequestedOutput("predict", binary_data=binary)]
        chosen = client.infer("model", inputs, model_version=str(DAY_S), outputs=outputs)
        assert [output["name"] for output in chosen.get_response()["outputs"]] == ["predict"]
        np.testing.assert_allclose(chosen.as_numpy("predict"), values, atol=ATOL, rtol=0)
        with pytest.raises(InferenceServerException, match="version '7' is not loaded"):
            client.infer("model", inputs, model_version="7")
        with pytest.raises(InferenceServerException, match="'sequence_id' is not supported"):
            client.infer("model", inputs, sequence_id=3)
        client.close()

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        assert len(list(threads.map(ask_often, range(4)))) == 4


def test_weights_are_used(server, model, feeds):
    one = feeds[0]
    weights = {"2": [[0.5 for _ in ids] for ids in one["2"]]}
    expected = Predictor(model).predict(one, ["predict"], weights=weights)["predict"]
    reply = server.post("/predict?outputs=predict", {**one, "2.weights": weights["2"]})
    np.testing.assert_allclose(reply.json["predict"], expected, atol=ATOL, rtol=0)


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "message"),
    [
        ("GET", "/nothing", None, {}, 404, "GET /nothing: no such path"),
        ("GET", "/predict", None, {}, 405, "GET /predict: the method is not allowed"),
        ("GET", "/v2/models/other", None, {}, 404, "no model is called 'other'"),
        ("POST", "/v2/models/other/infer", b"{}", {}, 404, "no model is called 'other'"),
        ("GET", "/v2/models/model/versions/3", None, {}, 404, "version '3' is not loaded"),
        ("POST", INFER, b"", {}, 400, "the request is not JSON"),
        ("POST", INFER, b"{", {}, 400, "the request is not JSON"),
        ("POST", INFER, b"{}", {}, 400, "inputs: expected a list of tensors"),
        ("POST", INFER, b"{}", {"Inference-Header-Content-Length": "7"}, 400, "expected a number"),
        ("POST", INFER, b"x" * 200_001, {}, 413, "expected at most 200000 bytes"),
        ("POST", INFER, b"[" * 199_999, {}, 400, "the request is not JSON"),
        ("POST", INFER, b"{}", {"Content-Encoding": "gzip"}, 415, "Content-Encoding"),
        ("POST", "/predict", b'{"1": [[1]]}', {}, 400, "input 'dense_feature': is missing"),
        ("POST", "/predict?outputs=x", b"{}", {}, 400, "output 'x': the model has no such output"),
        ("POST", "/v2/repository/models/other/load", b"", {}, 404, "no model is called 'other'"),
    ],
)
def test_a_bad_request_is_refused_with_the_reason(
    server, method, path, body, headers, status, message
):
    reply = server.ask(method, path, body, headers)
    assert reply.status == status
    assert message in reply.json["error"]


def test_a_body_without_a_length_is_limited_as_well(server):
    chunks = itertools.repeat(b" " * 50_000, 5)
    reply = server.ask("POST", INFER, chunks)
    assert (reply.status, reply.json) == (
        413,
        {"error": "the request: expected at most 200000 bytes"},
    )


def test_what_is_not_http_is_no_problem(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as raw:
        raw.sendall(b"\x00\xff nonsense\r\n\r\n")
        assert b"400" in raw.recv(1000).splitlines()[0]
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as raw:
        raw.sendall(SLOW)  # and leaves
    assert server.ask("GET", "/v2/health/live").status == 200


def test_requests_above_the_limit_are_turned_away(model, feeds):
    def in_flight(number):
        return f"in_flight {number}.0".encode() in server.ask("GET", "/metrics").content

    with served(model, "--max-concurrency", 1) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as slow:
            slow.sendall(SLOW)
            server.wait_until(lambda: in_flight(1), "the slow request")
            reply = server.post("/predict", feeds[0])
            assert reply.status == 503
            assert reply.headers["retry-after"] == "1"
            assert "which is the limit; try again" in reply.json["error"]
        server.wait_until(lambda: in_flight(0), "the slow request to end")
        assert server.post("/predict", feeds[0]).status == 200


def test_a_request_that_does_not_arrive_in_time_is_ended(model):
    with (
        served(model, "--timeout-s", 0.2) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=30) as slow,
    ):
        slow.sendall(SLOW)
        whole = b"".join(iter(lambda: slow.recv(1000), b""))  # until it is closed
        assert b"408" in whole.splitlines()[0]


def test_a_request_may_limit_its_time(model, feeds):
    with served(model, "--max-delay-us", 10_000_000, "--max-batch", 10**6) as server:
        request = v2_request(tensors_of(feeds[0]), parameters={"timeout": 1000})
        reply = server.post(INFER, request)
        assert (reply.status, reply.json) == (504, {"error": "no answer within 0.001 s; try again"})


def test_a_token_is_required_where_one_is_set_and_never_logged(model, feeds):
    output = []
    with served(model, "--access-log", token=TOKEN, output=output) as server:
        assert server.post("/predict", feeds[0]).status == 200
        server.token = None
        assert server.ask("GET", "/v2/health/ready").status == 200
        for path in ("/v2", "/metrics", "/v2/models/model"):
            assert server.ask("GET", path).status == 401
        for given in ("Bearer wrong", TOKEN, "Bearer"):
            reply = server.ask("POST", "/predict", b"{}", {"Authorization": given})
            assert (reply.status, reply.json) == (401, {"error": "the token is missing or wrong"})
    assert TOKEN not in output[0]
    assert "POST '/predict' 401" in output[0]


def test_tls_is_spoken_with_a_certificate(model, feeds, tmp_path):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(
        [*make.split(), *name, "-keyout", key, "-out", certificate],
        check=True,
        capture_output=True,
    )
    options = ["--tls-certificate", certificate, "--tls-key", key, "--host", "0.0.0.0"]
    context = ssl.create_default_context(cafile=certificate)
    with served(model, *options, context=context) as server:
        assert server.post("/predict", feeds[0]).status == 200


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ([], 2, "serve: expected a model, or --follow with a folder; one of them"),
        (["{model}", "--host", "0.0.0.0"], 2, "--host 0.0.0.0: other machines could reach it; set"),
        (["{model}", "--tls-key", "x"], 2, "--tls-certificate and --tls-key: expected both"),
        (
            ["{model}", "--port", "0", "--tls-key", "/nowhere", "--tls-certificate", "/nowhere"],
            2,
            "expected a PEM certificate and its key",
        ),
        (["{model}-no", "--port", "0"], 1, "model-1-no"),
    ],
)
def test_a_mistake_is_reported_in_one_line(model, options, code, message):
    arguments = [one.format(model=model) for one in options]
    done = subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == code
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_port_that_is_taken_is_reported(server, model):
    done = subprocess.run(
        command(model, "--port", server.port),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert f"--port {server.port}: cannot listen: Address already in use" in done.stderr


@pytest.mark.cold
def test_the_server_loads_no_torch(model, feeds):
    with served(model) as server:
        assert server.post("/predict", feeds[0]).status == 200
        assert "libtorch" not in Path(f"/proc/{server.pid}/maps").read_text()


class Asking:
    """Threads that ask all the time while the block runs; every answer is kept."""

    def __init__(self, server, feeds, num_threads=3):
        self._server = server
        self._body = json.dumps(v2_request(tensors_of(feeds)))
        self._may_end = threading.Event()
        self._threads = concurrent.futures.ThreadPoolExecutor(num_threads)
        self._futures = [self._threads.submit(self._ask) for _ in range(num_threads)]

    def _ask(self):
        replies = []
        with contextlib.closing(self._server.connect()) as connection:
            while not self._may_end.is_set():
                replies.append(ask(connection, "POST", INFER, self._body))
        return replies

    def end(self):
        """Return all replies."""
        self._may_end.set()
        self._threads.shutdown()
        return [reply for future in self._futures for reply in future.result()]


def check_answers(replies, expected):
    """Check that every reply is that of the version it names; returns these versions."""
    versions = set()
    for reply in replies:
        assert reply.status == 200, reply.content
        found = reply.json
        versions.add(found["model_version"])
        for output in found["outputs"]:
            values = expected[found["model_version"]][output["name"]]
            np.testing.assert_allclose(output["data"], values, atol=ATOL, rtol=ATOL)
    return versions


def expected_by_version(place, numbers, feeds):
    """Return the answers of every version: of bases, and of deltas on top of them."""
    expected = {}
    predictor = None
    for number in numbers:
        url = f"{place}/model-{number}"
        if open_model(url)[1].type == "base":
            predictor = Predictor(url)
        else:
            predictor.apply(url)
        expected[str(predictor.version.id)] = predictor.predict(feeds)
    return expected


NUM_CHANGES = [30, pytest.param(1000, marks=pytest.mark.slow)]


@pytest.mark.parametrize("number", NUM_CHANGES)
def test_reloads_under_load_fail_and_mix_no_answer(run, feeds, tmp_path, number):
    expected = expected_by_version(run.place, (1, 4), feeds[0])
    link = tmp_path / "model"
    link.symlink_to(f"{run.place}/model-1")
    with served(link) as server:
        asking = Asking(server, feeds[0])
        for turn in range(number):
            new = tmp_path / "new"
            new.symlink_to(f"{run.place}/model-{(4, 1)[turn % 2]}")
            new.replace(link)
            version = str((4, 1)[turn % 2] * DAY_S)
            if turn % 2:
                reply = server.ask("POST", "/v2/repository/models/model/load")
                assert (reply.status, reply.json["version"]) == (200, version)
            else:
                os.kill(server.pid, signal.SIGHUP)
                server.wait_until(
                    lambda version=version: (
                        server.ask("GET", "/v2/models/model").json["versions"] == [version]
                    ),
                    "the reload",
                )
        replies = asking.end()
    assert check_answers(replies, expected) == expected.keys()
    assert len(replies) > number


@pytest.mark.parametrize("number", NUM_CHANGES)
def test_deltas_under_load_fail_and_mix_no_answer(feeds, tmp_path, number):
    publishing = ServingRun(tmp_path / "run")
    place = tmp_path / "run"
    for turn in range(number):
        publishing.make_version(num_batches=1, kind="base" if turn % 10 == 0 else "delta")
    expected = expected_by_version(place, range(1, number + 1), feeds[0])
    shown = tmp_path / "shown"
    shown.mkdir()
    lines = {
        name: (place / name).read_text().splitlines(keepends=True)
        for name in ("base_donefile.txt", "patch_donefile.txt")
    }
    ids = sorted(
        (int(json.loads(line)["id"]), name, line) for name, its in lines.items() for line in its
    )
    with served("--follow", shown, "--poll-s", 0.01) as server:
        assert server.ask("GET", "/v2/health/ready").status == 503
        assert server.post(INFER, {}).status == 503
        asking = None
        for version, (id_, name, line) in enumerate(ids, 1):
            shutil.copytree(place / f"model-{version}", shown / f"model-{version}")
            with (shown / name).open("a") as done_file:
                done_file.write(line)
            server.wait_until(lambda id_=id_: answers_with(server, id_), f"version {id_}")
            asking = asking or Asking(server, feeds[0])
        page = server.ask("GET", "/metrics").content.decode()
        assert "fleetrec_serving_lag_seconds 0.0" in page
        assert f"fleetrec_serving_version {float(number * DAY_S)}" in page
        replies = asking.end()
    assert len(check_answers(replies, expected)) > number / 2


def answers_with(server, version):
    reply = server.ask("GET", "/v2/models/model")
    return reply.status == 200 and reply.json["versions"] == [str(version)]


def test_a_stopped_server_finishes_what_it_has_accepted(model, feeds):
    with served(model, "--max-delay-us", 300_000, "--max-batch", 10**6) as server:
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            replies = [threads.submit(server.post, "/predict", feeds[0]) for _ in range(4)]
            server.wait_until(
                lambda: (
                    b"in_flight 4.0" in server.ask("GET", "/metrics").content
                    or all(one.done() for one in replies)
                ),
                "the requests",
            )
            server.child.send_signal(signal.SIGTERM)
            assert [one.result().status for one in replies] == [200] * 4
        assert server.child.wait(timeout=60) == 0
