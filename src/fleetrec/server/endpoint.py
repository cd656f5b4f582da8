"""gRPC endpoint: raw bytes, bearer token, health service."""

import dataclasses
import hmac
import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from fleetrec.core.errors import ConfigError, FleetRecError, UnavailableError
from fleetrec.core.fault_points import fault_point
from fleetrec.server.security import is_loopback
from fleetrec.server.wire import (
    CHUNK_BYTES,
    MAX_MESSAGE_BYTES,
    Message,
    WireError,
    decode,
    encode,
    split_chunks,
)

logger = logging.getLogger(__name__)

SERVICE = "fleetrec.Server"
METHOD = "Call"
TOKEN_KEY = "authorization"
ERROR_KEY = "fleetrec-error"
MODEL_KEY = "fleetrec-model"  # which model of the run a request is about
NUM_EXTRA_THREADS = 8


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """Credentials of a server: a shared token, and files for TLS."""

    token: str | None = None
    certificate: Path | None = None
    key: Path | None = None

    @property
    def metadata(self) -> str:
        """Return the value of the authorization header."""
        return f"Bearer {self.token or ''}"


@dataclasses.dataclass(slots=True)
class Traffic:
    """Counters of an endpoint."""

    num_calls: int = 0
    num_bytes_in: int = 0
    num_bytes_out: int = 0
    num_refused: int = 0

    def metrics(self) -> dict[str, float]:
        """Return the counters by their Prometheus names."""
        return {
            "calls_total": float(self.num_calls),
            "bytes_in_total": float(self.num_bytes_in),
            "bytes_out_total": float(self.num_bytes_out),
            "refused_total": float(self.num_refused),
        }


class Handler(Protocol):
    """Handles requests; called from several threads."""

    def handle(self, message: Message) -> Message:
        """Answer a request; raises WireError for one that does not fit."""
        ...


HandlerOf = Callable[[int], Handler]


class Endpoint:
    """Serves handlers inside a ``with`` block; ``handler_of`` returns that of a model."""

    def __init__(
        self, handler_of: HandlerOf, address: str, *, security: Security, num_workers: int
    ) -> None:
        check_address(address, security)
        self.traffic = Traffic()
        self._handler_of = handler_of
        self._security = security
        threads = 2 * num_workers + NUM_EXTRA_THREADS  # a waiting worker blocks one
        self._server = grpc.server(
            futures.ThreadPoolExecutor(threads, thread_name_prefix="serve"),
            options=[
                ("grpc.max_receive_message_length", CHUNK_BYTES + 1024),
                ("grpc.max_send_message_length", CHUNK_BYTES + 1024),
                ("grpc.so_reuseport", 0),
                ("grpc.http2.min_recv_ping_interval_without_data_ms", 1000),
                ("grpc.keepalive_permit_without_calls", 1),
            ],
        )
        methods = grpc.method_handlers_generic_handler(
            SERVICE, {METHOD: grpc.stream_stream_rpc_method_handler(self._call)}
        )
        self._health = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._server.add_generic_rpc_handlers((methods,))
        self.port = self._bind(address)

    def __enter__(self) -> Self:
        self._server.start()
        self._health.set("", health_pb2.HealthCheckResponse.SERVING)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._health.enter_graceful_shutdown()
        self._server.stop(grace=1.0).wait()

    def _bind(self, address: str) -> int:
        try:
            if self._security.certificate is None or self._security.key is None:
                port: int = self._server.add_insecure_port(address)
            else:
                pair = (self._security.key.read_bytes(), self._security.certificate.read_bytes())
                credentials = grpc.ssl_server_credentials([pair])
                port = self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise UnavailableError(f"cannot serve on {address}: {error}") from error
        return port

    def _call(self, chunks: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        self._check_token(context)
        content = self._collect(chunks, context)
        self.traffic.num_calls += 1
        self.traffic.num_bytes_in += len(content)
        try:
            handler = self._handler_of(_model_of(context))
            answer = encode(handler.handle(decode(content)))
        except FleetRecError as error:
            self.traffic.num_refused += 1
            context.set_trailing_metadata([(ERROR_KEY, type(error).__name__)])
            code = (
                grpc.StatusCode.INVALID_ARGUMENT
                if isinstance(error, WireError)
                else grpc.StatusCode.FAILED_PRECONDITION
            )
            context.abort(code, str(error)[:1000])
        except OSError as error:  # such as a full disk: the client retries
            logger.warning("cannot write: %s", error)
            context.abort(grpc.StatusCode.UNAVAILABLE, f"the server cannot write: {error}")
        fault_point("answer")
        self.traffic.num_bytes_out += len(answer)
        yield from split_chunks(answer)

    def _check_token(self, context: grpc.ServicerContext) -> None:
        if self._security.token is None:
            return
        given = dict(context.invocation_metadata()).get(TOKEN_KEY, "")
        given_bytes = given if isinstance(given, bytes) else given.encode()
        if not hmac.compare_digest(given_bytes, self._security.metadata.encode()):
            self.traffic.num_refused += 1
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "the token is missing or wrong")

    def _collect(self, chunks: Iterable[bytes], context: grpc.ServicerContext) -> bytes:
        parts: list[bytes] = []
        num_bytes = 0
        for chunk in chunks:
            num_bytes += len(chunk)
            if num_bytes > MAX_MESSAGE_BYTES:
                context.abort(
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                    f"a message has at most {MAX_MESSAGE_BYTES} bytes",
                )
            parts.append(chunk)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def only(handler: Handler) -> HandlerOf:
    """Return what finds the handler of a server of one model."""

    def handler_of(model: int) -> Handler:
        if model != 0:
            raise WireError(f"expected model 0, the only one here, got {model}")
        return handler

    return handler_of


def _model_of(context: grpc.ServicerContext) -> int:
    given = str(dict(context.invocation_metadata()).get(MODEL_KEY, "0"))
    if not (given.isascii() and given.isdecimal()):
        raise WireError(f"{MODEL_KEY}: expected a number, got {given!r}")
    return int(given)


def check_address(address: str, security: Security) -> None:
    """Raise ConfigError for an address that other machines can reach without a token."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ConfigError([f"--endpoint: expected host:port, got {address!r}"])
    if security.token is None and not is_loopback(host):
        raise ConfigError(
            [
                f"--endpoint {address}: other machines could reach it; set FLEETREC_TOKEN to a "
                "secret that servers and workers share, or use 127.0.0.1"
            ]
        )
