"""``python -m fleetrec.server``, up to what it serves with."""

from pathlib import Path

import pytest

from fleetrec.core.env import TOKEN
from fleetrec.core.errors import CheckpointError
from fleetrec.server import __main__ as command
from fleetrec.server.serve import SNAPSHOT_BYTES

NEEDED = ["--index=1", "--num-servers=2", "--num-workers=3", "--endpoint=host:1", "--directory=d"]


@pytest.fixture(autouse=True)
def handlers(monkeypatch):
    monkeypatch.setattr(command.signal, "signal", lambda number, handler: None)
    monkeypatch.setattr(command.logging, "basicConfig", lambda **_: None)


def run(monkeypatch, *flags, serve):
    monkeypatch.setattr(command.sys, "argv", ["fleetrec.server", *flags])
    monkeypatch.setattr(command, "serve", serve)
    return command.main()


def served(monkeypatch, *flags):
    """Return the options that a server gets."""
    found = []
    assert run(monkeypatch, *flags, serve=lambda options, *, is_stopped: found.append(options)) == 0
    return found[0]


def test_flags_say_which_server_it_is_and_the_token_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv(TOKEN, "secret")
    options = served(monkeypatch, *NEEDED)
    assert (options.index, options.num_servers, options.num_workers) == (1, 2, 3)
    assert (options.endpoint, options.directory) == ("host:1", Path("d"))
    assert (options.durability, options.snapshot_bytes) == ("process", SNAPSHOT_BYTES)
    assert options.metrics_port is None
    assert options.security.token == "secret"


def test_every_further_flag_has_an_effect(monkeypatch):
    further = ["--durability=disk", "--snapshot-bytes=9", "--metrics-port=8"]
    options = served(monkeypatch, *NEEDED, *further, "--tls-certificate=c", "--tls-key=k")
    assert (options.durability, options.snapshot_bytes, options.metrics_port) == ("disk", 9, 8)
    assert (options.security.certificate, options.security.key) == (Path("c"), Path("k"))


@pytest.mark.parametrize("missing", range(len(NEEDED)))
def test_flags_that_are_needed_are_asked_for(monkeypatch, capsys, missing):
    flags = [flag for index, flag in enumerate(NEEDED) if index != missing]
    with pytest.raises(SystemExit) as caught:
        served(monkeypatch, *flags)
    assert caught.value.code == 2
    assert NEEDED[missing].partition("=")[0] in capsys.readouterr().err


def test_an_error_is_one_line_in_the_log(monkeypatch, caplog):
    def serve(options, *, is_stopped):
        raise CheckpointError("the folder is damaged")

    assert run(monkeypatch, *NEEDED, serve=serve) == 1
    (record,) = caplog.records
    assert record.getMessage() == "the folder is damaged"
    assert record.exc_info is None
