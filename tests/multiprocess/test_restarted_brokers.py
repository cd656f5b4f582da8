"""Brokers that are killed or hang while a range is read."""

import logging
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fleetrec.core.env import environment_with
from fleetrec.core.errors import DataError
from fleetrec.data.files import DataFile
from fleetrec.data.loader import Loader
from fleetrec.data.streams import kafka, nats
from making_data import make_options
from streaming import NatsServer, wait_until

pytestmark = pytest.mark.multiprocess

NUM_MESSAGES = 3000


@pytest.fixture
def server(tmp_path):
    made = NatsServer(tmp_path)
    yield made
    made.close()


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING)
    return caplog


def open_range(path):
    return DataFile(path=path, name="x", num_bytes=NUM_MESSAGES * 7).open()


def when_warned(warnings, do):
    """Do something in a thread as soon as an attempt has failed."""

    def wait():
        wait_until(lambda: "attempt 2 follows" in warnings.text, what="a failed attempt")
        do()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_a_range_is_whole_though_the_server_is_killed_and_restarted_within_it(server, warnings):
    values = [b"%06d" % i for i in range(NUM_MESSAGES)]
    server.send(*values)
    with open_range(server.url(query=f"?begin=1&end={NUM_MESSAGES + 1}")) as stream:
        text = stream.read(1 << 22)
        assert 0 < len(text) < NUM_MESSAGES * 7
        server.kill()
        thread = when_warned(warnings, server.start)
        while buffer := stream.read(1 << 22):
            text += buffer
        thread.join()
    assert text == b"\n".join(values) + b"\n"
    assert "clicks: cannot read offset " in warnings.text


def test_a_killed_server_that_does_not_return_is_an_error_in_one_line(server):
    server.send(*[b"x"] * NUM_MESSAGES)
    query = f"?begin=1&end={NUM_MESSAGES + 1}&retry_s=0.5"
    with open_range(server.url(query=query)) as stream:
        assert stream.read(1)
        server.kill()
        with pytest.raises(DataError, match=r"/clicks: cannot read offset \d+ .*attempts in") as e:
            while stream.read(1 << 22):
                pass
    assert "\n" not in str(e.value)


def test_batches_are_those_of_an_undisturbed_server(server, warnings, monkeypatch):
    monkeypatch.setattr(nats, "MESSAGES_PER_READ", 20)  # so that the loader is not far ahead
    server.send(*[b"click:%d 1:%d" % (i % 2, i) for i in range(NUM_MESSAGES)])
    url = server.url(query=f"?begin=1&end={NUM_MESSAGES + 1}")
    options = make_options(url, sparse=("click", "1"), dense=(), batch_size=64, format="slot_text")
    ids = []
    with Loader(options, seed=0).epoch(0) as batches:
        for number, batch in enumerate(batches):
            ids += batch.ids["1"].values.tolist()
            if number == 0:
                server.kill()
                thread = when_warned(warnings, server.start)
    thread.join()
    assert ids == list(range(NUM_MESSAGES))


@pytest.fixture
def cluster():
    pytest.importorskip("confluent_kafka", reason="needs the extra kafka")
    process = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("kafka_child.py"), str(NUM_MESSAGES)],
        env=environment_with({"PYTHONPATH": str(Path(__file__).parents[1])}, unless_set={}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process, process.stdout.readline().strip()
    process.kill()
    process.communicate()


def test_a_range_is_whole_though_the_kafka_broker_hangs_within_it(cluster, warnings, monkeypatch):
    monkeypatch.setattr(kafka, "SILENCE_S", 1.0)
    monkeypatch.setattr(kafka, "CALL_S", 1.0)
    process, hosts = cluster
    # Almost nothing is read ahead: librdkafka would have the whole range in memory.
    monkeypatch.setattr(kafka, "MESSAGES_PER_READ", 50)
    small = "queued.min.messages=1&fetch.message.max.bytes=1000"
    query = f"?partition=0&begin=0&end={NUM_MESSAGES}&{small}&retry_s=60"
    with open_range(f"kafka://{hosts}/clicks{query}") as stream:
        text = stream.read(1)
        process.send_signal(signal.SIGSTOP)
        thread = when_warned(warnings, lambda: process.send_signal(signal.SIGCONT))
        while buffer := stream.read(1 << 22):
            text += buffer
        thread.join()
    lines = text.splitlines()
    assert [int(line[:5]) for line in lines] == list(range(NUM_MESSAGES))
