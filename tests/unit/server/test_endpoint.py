"""Tokens, TLS, and bytes that are not a request."""

import contextlib
import hashlib
import shutil
import subprocess

import grpc
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from fleetrec.core.errors import ConfigError
from fleetrec.server.client import ClientOptions, ServerClient, ServerError
from fleetrec.server.endpoint import (
    METHOD,
    SERVICE,
    TOKEN_KEY,
    Endpoint,
    Security,
    check_address,
    only,
)
from fleetrec.server.wire import CHUNK_BYTES, Kind, Message, encode
from unit.server.serving import (
    MODEL,
    TOKEN,
    connected,
    make_rows,
    make_service,
    make_step,
    serving,
)


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory):
    """A server that holds something."""
    with serving(tmp_path_factory.mktemp("state")) as endpoints:
        with connected(endpoints) as client:
            client.set_up(np.arange(MODEL.num_dense, dtype=np.float32))
            client.register()
            client.push(make_step({"t": make_rows([1, 2], [[1, 1], [2, 2]])}), sequence=1)
        yield endpoints[0]


def digest(endpoint):
    """Everything that the server holds."""
    with connected([endpoint]) as client:
        parts = [
            *client.admin.dump("t"),
            *client.admin.dump("u"),
            *client.admin.dense_state().values(),
        ]
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).digest()


def send(endpoint, chunks, *, token=TOKEN):
    with grpc.insecure_channel(endpoint) as channel:
        call = channel.stream_stream(f"/{SERVICE}/{METHOD}")
        answer = call(iter(chunks), metadata=[(TOKEN_KEY, f"Bearer {token}")], timeout=10)
        return b"".join(answer)


def code_of(endpoint, chunks, **kwargs):
    with pytest.raises(grpc.RpcError) as caught:
        send(endpoint, chunks, **kwargs)
    return caught.value.code()


@pytest.mark.parametrize("token", ["", "wrong", TOKEN + "x", TOKEN[:-1]])
def test_a_wrong_token_is_refused(endpoint, token):
    hello = encode(Message(kind=Kind.HELLO))
    assert code_of(endpoint, [hello], token=token) == grpc.StatusCode.UNAUTHENTICATED
    assert send(endpoint, [hello])


@given(st.lists(st.binary(max_size=300), max_size=3))
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None
)
def test_any_bytes_change_nothing(endpoint, chunks):
    before = digest(endpoint)
    assert code_of(endpoint, chunks) == grpc.StatusCode.INVALID_ARGUMENT
    assert digest(endpoint) == before


I64, U32, U64, F32, U8 = np.int64, np.uint32, np.uint64, np.float32, np.uint8


def push_arrays(**changed):
    """The arrays of a push that fits, but for what is changed."""
    arrays = {
        "progress": np.zeros(0, U8),
        "counts": np.array([1, 0], U64),
        "dense": np.zeros(5, F32),
        "ids": np.array([7], I64),
        "shows": np.ones(1, U32),
        "clicks": np.zeros(1, U32),
        "grads": np.zeros((1, 2), F32),
        "more_ids": np.array([3], I64),
        "more_shows": np.ones(1, U32),
        "more_clicks": np.zeros(1, U32),
        "more_grads": np.zeros((1, 3), F32),
    }
    return [*(arrays | changed).values()]


WRONG = {
    "no samples": {"counts": np.array([0, 0], U64)},
    "too few dense": {"dense": np.zeros(4, F32)},
    "another width": {"grads": np.zeros((1, 3), F32)},
    "more gradients than ids": {"grads": np.zeros((2, 2), F32)},
    "gradients as whole numbers": {"grads": np.zeros((1, 2), I64)},
    "more clicks than shows": {"clicks": np.full(1, 2, U32)},
    "very many shows": {"shows": np.full(1, 2**31, U32)},
    "shows of other ids": {"shows": np.ones(2, U32)},
    "an id out of range": {"more_ids": np.array([10], I64)},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_push_that_does_not_fit_changes_nothing(endpoint, name):
    before = digest(endpoint)
    message = Message(kind=Kind.PUSH, incarnation=1, sequence=2, arrays=push_arrays(**WRONG[name]))
    assert code_of(endpoint, [encode(message)]) == grpc.StatusCode.INVALID_ARGUMENT
    assert digest(endpoint) == before


def test_a_piece_that_is_too_large_is_refused(endpoint):
    before = digest(endpoint)
    too_large = bytes(CHUNK_BYTES + 4096)
    assert code_of(endpoint, [too_large]) == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert digest(endpoint) == before


def test_another_model_is_refused(endpoint):
    other = MODEL.model_copy(update={"seed": 1})
    with (
        connected([endpoint], model=other) as client,
        pytest.raises(ServerError, match="seed differ"),
    ):
        client.set_up(np.zeros(MODEL.num_dense, np.float32))


def test_a_worker_that_was_replaced_is_refused(endpoint):
    with connected([endpoint]) as old, connected([endpoint]) as new:
        old.register()
        known = new.register()
        with pytest.raises(ServerError, match="was replaced"):
            old.push(make_step(), sequence=known.sequence + 1)


@pytest.mark.parametrize("address", ["0.0.0.0:7000", "example.org:7000", "10.0.0.1:7000"])
def test_other_machines_need_a_token(address):
    with pytest.raises(ConfigError, match="FLEETREC_TOKEN"):
        check_address(address, Security())
    check_address(address, Security(token=TOKEN))
    check_address("127.0.0.1:7000", Security())
    check_address("[::1]:7000", Security())


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate with openssl")
def test_a_client_with_the_certificate_connects_by_tls(tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    service, durable = make_service(tmp_path / "state")
    security = Security(token=TOKEN, certificate=certificate, key=key)
    options = ClientOptions(token=TOKEN, authority=certificate, deadline_s=30)
    with (
        contextlib.closing(durable),
        Endpoint(only(service), "localhost:0", security=security, num_workers=1) as endpoint,
        contextlib.closing(ServerClient(f"localhost:{endpoint.port}", options)) as client,
    ):
        assert client.call(Message(kind=Kind.HELLO)).sequence == 0
