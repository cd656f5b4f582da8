"""Streams of NATS JetStream, by nats-py. A stream is one partition; offsets are sequences."""

import asyncio
import contextlib
import datetime
import re
import ssl
from collections.abc import Coroutine, Generator, Iterator, Mapping
from typing import Any, TypeVar

from fleetrec.core.errors import DataError, UnavailableError
from fleetrec.core.stream_url import StreamUrl, masked
from fleetrec.data.streams.client import Message, NoAnswerError, Offsets
from fleetrec.data.streams.kafka import lost_messages

T = TypeVar("T")

CALL_S = 5.0
MESSAGES_PER_READ = 500
IDLE_S = 60.0  # after which the server forgets the position of a reader that is gone
PARTITION = 0
_PASSING = (408, 409, 500, 503)  # while a server starts, stops or recovers its streams
_NO_CONSUMER = 10014
_REFUSED = re.compile("authorization|authentication|permissions", re.IGNORECASE)
_TEXTS = ("user", "password", "token", "user_credentials", "nkeys_seed", "name")
_TLS = ("tls_ca", "tls_cert", "tls_key")


class NatsClient:
    """One stream, or the messages of one ``subject`` in it."""

    def __init__(self, url: StreamUrl, options: Mapping[str, str]) -> None:
        try:
            import nats
            import nats.aio.client
        except ImportError as error:
            raise UnavailableError(
                f"{url.shown}: needs nats-py; pip install 'fleetrec[nats]'"
            ) from error
        self._nats = nats
        self._url = url
        self._options = options
        settings = self._settings()
        self._loop = asyncio.new_event_loop()
        self._connection: Any = nats.aio.client.Client()
        try:
            self._run(self._connection.connect(**settings))
        except BaseException:
            self.close()
            raise
        self._stream = self._connection.jetstream(timeout=CALL_S)

    def partitions(self) -> tuple[int, ...]:
        """Return the one partition, after checking that the stream exists."""
        self._state()
        return (PARTITION,)

    def begin_offsets(self) -> Offsets:
        """Return the first sequence that is still there."""
        return {PARTITION: self._state().first_seq}

    def end_offsets(self) -> Offsets:
        """Return the sequence after the last message, with a subject after its last one."""
        state = self._state()
        if self._url.subject is None:
            return {PARTITION: state.last_seq + 1}
        errors = self._nats.js.errors
        try:
            call = self._stream.get_last_msg(self._url.topic, self._url.subject)
            last: Any = self._run(call, passed=errors.NotFoundError)
        except errors.NotFoundError:
            return {PARTITION: state.first_seq}
        return {PARTITION: last.seq + 1}

    def offsets_at(self, event_time_s: float) -> Offsets:
        """Return the first sequence at or after a time; the end if there is none."""
        ends = self.end_offsets()
        time = datetime.datetime.fromtimestamp(event_time_s, tz=datetime.UTC)
        policy = self._nats.js.api.DeliverPolicy.BY_START_TIME
        with self._consumer(deliver_policy=policy, opt_start_time=time) as consumer:
            if not self._run(consumer.consumer_info()).num_pending:
                return ends
            (message,) = self._run(consumer.fetch(1, timeout=CALL_S))
        return {PARTITION: message.metadata.sequence.stream}

    def read(self, partition: int, begin: int, end: int) -> Generator[list[Message]]:
        """Yield the messages of a range."""
        self._check_range(partition, begin, end)
        policy = self._nats.js.api.DeliverPolicy.BY_START_SEQUENCE
        with self._consumer(deliver_policy=policy, opt_start_seq=begin) as consumer:
            num_pending = self._run(consumer.consumer_info()).num_pending
            while begin < end and num_pending:
                wanted = min(MESSAGES_PER_READ, end - begin, num_pending)
                found = self._run(consumer.fetch(wanted, timeout=CALL_S))
                messages = self._messages(found, begin, end)
                num_pending = found[-1].metadata.num_pending
                begin = found[-1].metadata.sequence.stream + 1
                if messages:
                    yield messages
        if begin < end and self._url.subject is None:
            self._raise_missing(begin, end)

    def close(self) -> None:
        """Disconnect; a connection that is already lost is closed all the same."""
        with contextlib.suppress(NoAnswerError, DataError):
            self._run(self._connection.close())
        pending = asyncio.all_tasks(self._loop)
        for task in pending:
            task.cancel()
        if pending:
            self._loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        self._loop.run_until_complete(asyncio.sleep(0))  # sockets are closed by the loop
        self._loop.close()

    def _messages(self, found: list[Any], begin: int, end: int) -> list[Message]:
        messages = []
        for message in found:
            metadata = message.metadata
            offset = metadata.sequence.stream
            if offset < begin:
                raise NoAnswerError(f"message {offset} came after message {begin - 1}")
            if offset > begin and self._url.subject is None:
                self._raise_missing(begin, min(end, offset))
            begin = offset + 1
            if offset < end:
                time_ms = int(metadata.timestamp.timestamp() * 1000)
                messages.append(Message(offset, time_ms, message.data))
        return messages

    def _raise_missing(self, begin: int, end: int) -> None:
        """Raise DataError if a message was deleted, NoAnswerError if it was dropped on the way."""
        errors = self._nats.js.errors
        try:
            self._run(self._stream.get_msg(self._url.topic, begin), passed=errors.NotFoundError)
        except errors.NotFoundError:
            raise DataError(
                f"{self._url.shown}: messages {begin} to {end - 1} are lost: the stream no longer "
                "has them; keep messages longer than a run may lag, or start a new run"
            ) from None
        raise NoAnswerError(f"message {begin} did not arrive")

    def _check_range(self, partition: int, begin: int, end: int) -> None:
        if partition != PARTITION:
            raise DataError(f"{self._url.shown}: no partition {partition}; a stream has only 0")
        state = self._state()
        if state.first_seq > begin:
            raise lost_messages(self._url, partition, begin, end, first_kept=state.first_seq)
        if state.last_seq + 1 < end:
            raise NoAnswerError(
                f"the stream ends at {state.last_seq + 1}, before {end}, which it had reached"
            )

    @contextlib.contextmanager
    def _consumer(self, **position: Any) -> Iterator[Any]:
        """Open a temporary consumer that acknowledges nothing."""
        api = self._nats.js.api
        config = api.ConsumerConfig(
            ack_policy=api.AckPolicy.NONE, inactive_threshold=IDLE_S, mem_storage=True, **position
        )
        subject = self._url.subject or ""
        consumer = self._run(
            self._stream.pull_subscribe(subject, stream=self._url.topic, config=config)
        )
        try:
            yield consumer
        finally:
            if not self._loop.is_closed():
                with contextlib.suppress(NoAnswerError, DataError):
                    self._run(consumer.unsubscribe())
                    self._run(self._stream.delete_consumer(self._url.topic, config.name))

    def _state(self) -> Any:
        return self._run(self._stream.stream_info(self._url.topic)).state

    def _run(self, call: Coroutine[Any, Any, T], *, passed: type[Exception] | tuple[()] = ()) -> T:
        """Wait for a call, and raise its errors as ours, except those ``passed``."""
        errors, js_errors = self._nats.errors, self._nats.js.errors
        try:
            return self._loop.run_until_complete(asyncio.wait_for(call, 4 * CALL_S))
        except passed:
            raise
        except js_errors.APIError as error:
            if error.code in _PASSING or error.err_code == _NO_CONSUMER:
                raise NoAnswerError(self._text(error)) from error
            raise DataError(f"{self._url.shown}: {self._text(error)}") from error
        except (errors.Error, OSError, TimeoutError, asyncio.CancelledError) as error:
            text = self._text(error)
            if _REFUSED.search(text):  # nats-py has no class for it while it connects
                raise DataError(f"{self._url.shown}: {text}") from error
            raise NoAnswerError(text) from error

    def _text(self, error: BaseException) -> str:
        return masked(str(error) or type(error).__name__, self._options)

    def _settings(self) -> dict[str, Any]:
        """Return the arguments of the connection; attempts are made by the caller."""
        known = (*_TEXTS, *_TLS)
        unknown = sorted(set(self._options) - set(known))
        if unknown:
            raise DataError(
                f"{self._url.shown}: {unknown[0]!r} is unknown; options of NATS: {', '.join(known)}"
            )
        settings: dict[str, Any] = {
            "servers": [f"nats://{host}" for host in self._url.hosts.split(",")],
            "allow_reconnect": False,
            "max_reconnect_attempts": 1,
            "reconnect_time_wait": 0,
            "connect_timeout": CALL_S,
            "error_cb": self._ignore,
            **{key: self._options[key] for key in _TEXTS if key in self._options},
        }
        if any(key in self._options for key in _TLS):
            context = ssl.create_default_context(cafile=self._options.get("tls_ca"))
            if "tls_cert" in self._options:
                context.load_cert_chain(self._options["tls_cert"], self._options.get("tls_key"))
            settings["tls"] = context
        return settings

    async def _ignore(self, error: Exception) -> None:
        """Do nothing: the call that meets an error of the connection raises it."""
