"""The server process of a job, up to what it serves with."""

import signal

import pytest

from fleetrec.core.env import CERTIFICATE, KEY, LISTEN_HOST, SNAPSHOT_BYTES, STATE, STATUS, TOKEN
from fleetrec.core.errors import CheckpointError, ConfigError
from fleetrec.core.place import Place
from fleetrec.server import process
from fleetrec.server.journal import JournalError
from fleetrec.server.process import run_server, serve_until_stopped

ENDPOINTS = ("127.0.0.1:7001", "127.0.0.1:7002")
PLACE = Place(role="server", rank=1, num_workers=3, server_endpoints=ENDPOINTS)


@pytest.fixture(autouse=True)
def handlers():
    """Restore what signals do in the process of the tests."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def served(monkeypatch):
    """Collect the options of servers instead of serving."""
    found = []
    monkeypatch.setattr(process, "serve", lambda options, *, is_stopped: found.append(options))
    return found


def test_a_server_serves_what_its_place_and_the_environment_say(monkeypatch, served, tmp_path):
    for name, value in (
        (STATE, tmp_path / "state"),
        (STATUS, tmp_path / "status"),
        (TOKEN, "secret"),
        (SNAPSHOT_BYTES, 4096),
        (CERTIFICATE, tmp_path / "cert"),
        (KEY, tmp_path / "key"),
    ):
        monkeypatch.setenv(name, str(value))
    run_server(PLACE, initial="checkpoint")
    (options,) = served
    assert (options.index, options.num_servers, options.num_workers) == (1, 2, 3)
    assert options.endpoint == ENDPOINTS[1]
    assert options.directory == tmp_path / "state"
    assert options.directory.is_dir()
    assert options.status == tmp_path / "status"
    assert options.snapshot_bytes == 4096
    assert options.initial == "checkpoint"
    assert options.security.token == "secret"
    assert (options.security.certificate, options.security.key) == (
        tmp_path / "cert",
        tmp_path / "key",
    )


def test_a_server_without_a_state_folder_says_that_its_state_is_lost(served, caplog):
    run_server(PLACE, initial=None)
    assert f"{STATE} is not set" in caplog.text
    assert not served[0].directory.exists()  # a temporary folder, which is deleted


def test_a_certificate_needs_its_key(monkeypatch, served, tmp_path):
    monkeypatch.setenv(CERTIFICATE, "cert")
    with pytest.raises(ConfigError, match="expected both in the environment, or none"):
        serve_until_stopped(PLACE, tmp_path)
    assert not served


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_server(monkeypatch, tmp_path, number):
    def serve(options, *, is_stopped):
        assert not is_stopped.is_set()
        signal.raise_signal(number)
        assert is_stopped.is_set()

    monkeypatch.setattr(process, "serve", serve)
    serve_until_stopped(PLACE, tmp_path)


@pytest.mark.parametrize("kind", [JournalError, CheckpointError])
def test_a_state_that_cannot_be_used_says_what_to_remove(monkeypatch, tmp_path, kind):
    def serve(options, *, is_stopped):
        raise kind("damaged")

    monkeypatch.setattr(process, "serve", serve)
    with pytest.raises(CheckpointError, match=f"damaged; .* remove {tmp_path}, then --resume"):
        serve_until_stopped(PLACE, tmp_path / "server.1")


@pytest.mark.parametrize(
    ("host", "address"),
    [("", ENDPOINTS[1]), ("10.0.0.3", "10.0.0.3:7002"), ("fd00::3", "[fd00::3]:7002")],
)
def test_a_server_may_listen_elsewhere_than_at_its_name(
    monkeypatch, served, tmp_path, host, address
):
    monkeypatch.setenv(LISTEN_HOST, host)
    serve_until_stopped(PLACE, tmp_path)
    assert served[0].endpoint == address
