"""gRPC clients of parameter servers, with retries."""

import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from fleetrec.core.errors import CheckpointError, FleetRecError, MismatchError, UnavailableError
from fleetrec.core.fault_points import fault_point
from fleetrec.server.endpoint import ERROR_KEY, METHOD, MODEL_KEY, SERVICE, TOKEN_KEY
from fleetrec.server.wire import CHUNK_BYTES, Kind, Message, decode, encode, split_chunks

logger = logging.getLogger(__name__)

_RETRYABLE = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
)
_RETRY_S = 0.1
_WARN_AFTER_S = 10.0


class ServerError(FleetRecError):
    """A server refused a request."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Timeouts and credentials of a client."""

    token: str | None = None
    authority: Path | None = None  # root certificates (PEM), if servers use TLS
    deadline_s: float = 180.0  # of one attempt
    give_up_s: float = 600.0  # without any answer
    num_threads: int = 5  # concurrent calls to servers
    should_stop: Callable[[], bool] = lambda: False  # polled while waiting
    model: int = 0  # which model of the run the requests are about


class ServerClient:
    """Client of one server. Requests are idempotent, so a failed call is simply repeated."""

    def __init__(self, endpoint: str, options: ClientOptions) -> None:
        self.endpoint = endpoint
        self._options = options
        self._channel = _open_channel(endpoint, options)
        self._method: Callable[..., grpc.CallIterator] = self._channel.stream_stream(
            f"/{SERVICE}/{METHOD}"
        )
        self._metadata = [
            (TOKEN_KEY, f"Bearer {options.token or ''}"),
            (MODEL_KEY, str(options.model)),
        ]

    def call(self, message: Message) -> Message:
        """Send a request and return the answer; retries while the server is unreachable."""
        content = encode(message)
        begin = warned = time.monotonic()
        while True:
            answer = self._try(content)
            now = time.monotonic()
            if isinstance(answer, Message) and answer.kind != Kind.WAIT:
                fault_point("answered")
                return answer
            if isinstance(answer, Message):
                begin = now  # the server is alive
                warned = self._warn_of_missing(answer, warned, now)
                self._check_stop()
                continue
            if now - begin > self._options.give_up_s:
                raise UnavailableError(
                    f"server {self.endpoint}: no answer for {now - begin:.0f} s: {answer}; "
                    "see its log"
                )
            if now - warned > _WARN_AFTER_S:
                warned = now
                logger.warning("server %s does not answer: %s; retrying", self.endpoint, answer)
            self._check_stop()
            time.sleep(_RETRY_S)

    def close(self) -> None:
        """Hang up."""
        self._channel.close()

    def _try(self, content: bytes) -> Message | str:
        """Return the answer, or the error of a call that may be repeated."""
        try:
            chunks = self._method(
                split_chunks(content),
                timeout=self._options.deadline_s,
                metadata=self._metadata,
                wait_for_ready=True,
            )
            return decode(b"".join(chunks))
        except grpc.RpcError as error:
            if error.code() in _RETRYABLE:
                return f"{error.code().name}: {error.details()}"
            raise self._refusal(error) from error

    def _check_stop(self) -> None:
        """Stop waiting if this process was asked to stop: its peers were, too."""
        if self._options.should_stop():
            raise KeyboardInterrupt

    def _refusal(self, error: grpc.RpcError) -> FleetRecError:
        kinds = {kind.__name__: kind for kind in (CheckpointError, MismatchError)}
        named = dict(error.trailing_metadata() or ()).get(ERROR_KEY, "")
        if named in kinds:
            return kinds[str(named)](error.details())
        return ServerError(f"server {self.endpoint}: {error.code().name}: {error.details()}")

    def _warn_of_missing(self, answer: Message, warned: float, now: float) -> float:
        if now - warned < _WARN_AFTER_S:
            return warned
        missing = ", ".join(str(worker) for worker in answer.arrays[0])
        logger.warning("server %s waits for worker %s", self.endpoint, missing)
        return now


class ServerGroup:
    """Clients of all servers of a run; calls them concurrently."""

    def __init__(self, endpoints: Sequence[str], options: ClientOptions) -> None:
        self._clients = [ServerClient(endpoint, options) for endpoint in endpoints]
        num_threads = min(options.num_threads, len(endpoints))
        self._threads = ThreadPoolExecutor(num_threads, thread_name_prefix="call")

    def __len__(self) -> int:
        return len(self._clients)

    def call_each(self, messages: Sequence[Message]) -> list[Message]:
        """Send message i to server i; returns when all have answered."""
        if len(self._clients) == 1:
            return [self._clients[0].call(messages[0])]
        waiting = [
            self._threads.submit(client.call, message)
            for client, message in zip(self._clients, messages, strict=True)
        ]
        return [future.result() for future in waiting]

    def call_all(self, message: Message) -> list[Message]:
        """Send the same message to all servers."""
        return self.call_each([message] * len(self._clients))

    def call_first(self, message: Message) -> Message:
        """Call server 0, which keeps the all-gathers."""
        return self._clients[0].call(message)

    def close(self) -> None:
        """Hang up."""
        for client in self._clients:
            client.close()
        self._threads.shutdown(wait=False, cancel_futures=True)


def _open_channel(endpoint: str, options: ClientOptions) -> grpc.Channel:
    settings = [
        ("grpc.max_receive_message_length", CHUNK_BYTES + 1024),
        ("grpc.max_send_message_length", CHUNK_BYTES + 1024),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1000),
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.enable_http_proxy", 0),
    ]
    if options.authority is None:
        return grpc.insecure_channel(endpoint, settings)
    credentials = grpc.ssl_channel_credentials(options.authority.read_bytes())
    return grpc.secure_channel(endpoint, credentials, settings)
