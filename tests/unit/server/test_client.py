"""Calls are repeated until a server answers; waiting workers say whom they wait for."""

import contextlib
import dataclasses
import logging
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fleetrec.core.errors import UnavailableError
from fleetrec.server import client as client_module
from fleetrec.server.client import ClientOptions, ServerClient, ServerError, ServerGroup
from fleetrec.server.wire import Kind, Message
from unit.server.serving import MODEL, SYNC, TOKEN, connected, make_step, serving

DEADLINE_S = 60
OPTIONS = ClientOptions(token=TOKEN, deadline_s=30, give_up_s=60)


def test_an_unreachable_server_is_an_error_in_time():
    options = ClientOptions(deadline_s=0.05, give_up_s=0.1)
    with (
        contextlib.closing(ServerClient("127.0.0.1:1", options)) as client,
        pytest.raises(UnavailableError, match=r"127\.0\.0\.1:1: no answer for"),
    ):
        client.call(Message(kind=Kind.HELLO))


def test_a_client_that_was_asked_to_stop_does_not_retry():
    options = ClientOptions(deadline_s=0.05, give_up_s=60, should_stop=lambda: True)
    with (
        contextlib.closing(ServerClient("127.0.0.1:1", options)) as client,
        pytest.raises(KeyboardInterrupt),
    ):
        client.call(Message(kind=Kind.HELLO))


def test_a_refusal_is_not_repeated(tmp_path):
    wrong = dataclasses.replace(OPTIONS, token="wrong")
    with serving(tmp_path) as endpoints:
        with (
            contextlib.closing(ServerClient(endpoints[0], OPTIONS)) as client,
            pytest.raises(ServerError, match="worker 5 of 1 does not exist"),
        ):
            client.call(Message(kind=Kind.HELLO, worker=5))
        with (
            contextlib.closing(ServerClient(endpoints[0], wrong)) as client,
            pytest.raises(ServerError, match="UNAUTHENTICATED"),
        ):
            client.call(Message(kind=Kind.HELLO))


def test_a_group_calls_all_servers_in_their_order(tmp_path):
    with (
        serving(tmp_path, num_servers=2, num_workers=3) as endpoints,
        contextlib.closing(ServerGroup(endpoints, OPTIONS)) as group,
    ):
        hello = Message(kind=Kind.HELLO, worker=1)
        group.call_each([dataclasses.replace(hello, incarnation=i) for i in (4, 2)])
        assert [answer.incarnation for answer in group.call_all(hello)] == [4, 2]
        assert group.call_first(hello).incarnation == 4


def test_a_waiting_worker_says_whom_it_waits_for(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(client_module, "_WARN_AFTER_S", 0.0)
    with (
        serving(tmp_path, num_workers=3) as endpoints,
        connected(endpoints, model=SYNC, num_workers=3) as first,
        connected(endpoints, model=SYNC, num_workers=3, index=1) as second,
        connected(endpoints, model=SYNC, num_workers=3, index=2) as third,
        caplog.at_level(logging.WARNING, logger="fleetrec.server.client"),
        ThreadPoolExecutor(2) as threads,
    ):
        first.set_up(np.zeros(MODEL.num_dense, np.float32))
        for client in (first, second, third):
            client.register()
            client.push(make_step(), sequence=1)
        waiting = [threads.submit(client.pull, {}, sequence=2) for client in (first, third)]
        end = time.monotonic() + DEADLINE_S
        while f"server {endpoints[0]} waits for worker 1" not in caplog.messages:
            assert time.monotonic() < end
            assert not any(future.done() for future in waiting)
            time.sleep(0.02)
        second.pull({}, sequence=2)
        for future in waiting:
            future.result(timeout=DEADLINE_S)
