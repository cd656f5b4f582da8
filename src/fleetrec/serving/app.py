"""The HTTP application: Open Inference Protocol v2, ``/predict``, ``/recall``, ``/metrics``."""

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from fleetrec import __version__
from fleetrec.core.errors import FleetRecError
from fleetrec.export.answer import Answer
from fleetrec.export.graph_predictor import GraphPredictor
from fleetrec.features.values import FeatureValues
from fleetrec.server.prometheus import CONTENT_TYPE, to_text
from fleetrec.serving.batcher import Batcher
from fleetrec.serving.gate import Gate, error_response, json_response
from fleetrec.serving.inference_protocol import HEADER_LENGTH, encode_response
from fleetrec.serving.metrics import ServingMetrics
from fleetrec.serving.model_source import LoadedModel, ModelSource, version_of
from fleetrec.serving.options import BatchOptions, Limits
from fleetrec.serving.plain_json import decode_feeds, encode_outputs
from fleetrec.serving.request_error import RequestError

logger = logging.getLogger(__name__)

T = TypeVar("T")
Endpoint = Callable[[Request], Awaitable[Response]]

INLINE_BYTES = 1 << 16  # larger requests are decoded in a thread, so that others are not held up
CLIENT_CLOSED = 499  # as nginx counts a client that has gone


class ServingApp:
    """Routes of a server with one model."""

    def __init__(
        self, source: ModelSource, *, name: str, limits: Limits, batching: BatchOptions
    ) -> None:
        self._source = source
        self._name = name
        self._limits = limits
        self._batching = batching
        self._metrics = ServingMetrics()
        self._batcher: Batcher | None = None
        self._reloads: set[asyncio.Task[None]] = set()
        self._on_start: Callable[[], None] = lambda: None

    def build(
        self,
        *,
        token: str | None,
        access_log: bool = False,
        on_start: Callable[[], None] = lambda: None,
    ) -> Gate:
        """Return the ASGI application; ``on_start`` is called when it can answer."""
        self._on_start = on_start
        model = "/v2/models/{name}"
        versioned = f"{model}/versions/{{version}}"
        predictions: dict[str, Endpoint] = {
            "/predict": self._predict,
            "/recall": self._recall,
            f"{model}/infer": self._infer,
            f"{versioned}/infer": self._infer,
        }
        reads: dict[str, Endpoint] = {
            "/v2": self._server,
            "/v2/health/live": self._live,
            "/v2/health/ready": self._ready,
            model: self._model,
            versioned: self._model,
            f"{model}/ready": self._model_ready,
            f"{versioned}/ready": self._model_ready,
            "/metrics": self._page,
        }
        repository: dict[str, Endpoint] = {
            "/v2/repository/index": self._index,
            "/v2/repository/models/{name}/load": self._load,
        }
        routes = [
            *(
                Route(path, self._admitted(one), methods=["POST"])
                for path, one in predictions.items()
            ),
            *(Route(path, _refusing(one), methods=["GET"]) for path, one in reads.items()),
            *(Route(path, _refusing(one), methods=["POST"]) for path, one in repository.items()),
        ]
        app = Starlette(
            routes=routes,
            lifespan=self._lifespan,
            exception_handlers={HTTPException: _not_found},
        )
        app.router.redirect_slashes = False
        return Gate(app, self._metrics, token=token, access_log=access_log)

    @contextlib.asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        """Compute while the server runs; it ends after the last response."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._on_hangup)
        with Batcher(self._batching, loop=loop, on_batch=self._metrics.observe_batch) as batcher:
            self._batcher = batcher
            self._on_start()
            yield
        loop.remove_signal_handler(signal.SIGHUP)

    def _admitted(self, endpoint: Endpoint) -> Endpoint:
        """Return a prediction endpoint that refuses requests above the limits."""

        async def answer(request: Request) -> Response:
            begin = time.perf_counter()
            limit = self._limits.max_concurrency
            if self._metrics.num_in_flight >= limit:
                busy = f"{limit} requests are in progress, which is the limit; try again"
                return error_response(RequestError(busy, status=503, retry_after_s=1))
            self._metrics.num_in_flight += 1
            try:
                return await _refusing(endpoint)(request)
            finally:
                self._metrics.num_in_flight -= 1
                self._metrics.observe_latency(time.perf_counter() - begin)

        return answer

    async def _infer(self, request: Request) -> Response:
        self._check_name(request)
        body = await self._body(request)
        loaded = self._loaded()
        header = request.headers.get(HEADER_LENGTH)
        decoded, values = await _run(lambda: loaded.decoder.decode(body, header), len(body))
        fetches = loaded.signature.check_fetches(list(decoded.is_binary))
        answer = await self._compute(loaded.predictor, values, fetches, decoded.timeout_s)
        manifest = answer.manifest
        self._check_version(request, version_of(manifest), manifest.fingerprint)
        parts, num_json = encode_response(
            decoded,
            answer.outputs,
            model=self._name,
            version=version_of(manifest),
            fingerprint=manifest.fingerprint,
        )
        if num_json is None:
            return Response(parts[0], media_type="application/json")
        return Response(
            b"".join(parts),
            media_type="application/octet-stream",
            headers={HEADER_LENGTH: str(num_json)},
        )

    async def _predict(self, request: Request) -> Response:
        body = await self._body(request)
        loaded = self._loaded()
        wanted = [
            name for one in request.query_params.getlist("outputs") for name in one.split(",")
        ]
        fetches = loaded.signature.check_fetches(wanted)
        values = await _run(lambda: decode_feeds(body, loaded.signature), len(body))
        answer = await self._compute(loaded.predictor, values, fetches, None)
        content = encode_outputs(answer.outputs, version_of(answer.manifest))
        return Response(content, media_type="application/json")

    async def _recall(self, request: Request) -> Response:
        body = await self._body(request)
        recall = self._loaded().recall
        if recall is None:
            raise RequestError("the model has no items: export it with --items", status=404)
        users = await _run(lambda: recall.decode(body), len(body))
        answer = await self._compute(recall.tower, users.values, recall.fetches, None)
        loop = asyncio.get_running_loop()
        version = version_of(answer.manifest)
        content = await loop.run_in_executor(None, recall.encode, answer, users.topk, version)
        return Response(content, media_type="application/json")

    async def _compute(
        self,
        predictor: GraphPredictor,
        values: FeatureValues,
        fetches: tuple[str, ...],
        timeout_s: float | None,
    ) -> Answer:
        assert self._batcher is not None
        limit_s = min(timeout_s or self._limits.timeout_s, self._limits.timeout_s)
        future = self._batcher.submit(predictor, values, fetches)
        # No asyncio.timeout, which costs more than the rest of this function.
        expiry = future.get_loop().call_later(limit_s, future.cancel)
        try:
            return await future
        except asyncio.CancelledError:
            if not future.cancelled() or _is_cancelled():
                raise
            late = f"no answer within {limit_s:g} s; try again"
            raise RequestError(late, status=504) from None
        finally:
            expiry.cancel()

    async def _body(self, request: Request) -> bytes:
        """Read the body within the limits of size and time."""
        encoding = request.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise RequestError(
                f"Content-Encoding: expected none, got {encoding[:40]!r}", status=415
            )
        limit = self._limits.max_request_bytes
        given = request.headers.get("content-length", "0")
        if given.isdecimal() and int(given) > limit:
            raise _too_large(limit)
        parts: list[bytes] = []
        num_bytes = 0
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                async for part in request.stream():
                    num_bytes += len(part)
                    if num_bytes > limit:
                        raise _too_large(limit)
                    parts.append(part)
        except TimeoutError:
            late = f"the request did not arrive within {self._limits.timeout_s:g} s"
            raise RequestError(late, status=408) from None
        except ClientDisconnect:
            raise RequestError("the client has closed", status=CLIENT_CLOSED) from None
        return b"".join(parts)

    def _loaded(self) -> LoadedModel:
        loaded = self._source.loaded
        if loaded is None:
            raise RequestError("no model is loaded yet; try again", status=503, retry_after_s=1)
        return loaded

    def _check_name(self, request: Request) -> None:
        name = request.path_params["name"]
        if name != self._name:
            raise RequestError(
                f"no model is called {name!r}; this server has {self._name!r}", status=404
            )

    def _check_version(self, request: Request, *loaded: str) -> None:
        wanted = request.path_params.get("version")
        if wanted is not None and wanted not in loaded:
            raise RequestError(
                f"version {wanted!r} is not loaded; the loaded one is {loaded[0]!r}", status=404
            )

    async def _server(self, _request: Request) -> Response:
        extensions = ["binary_tensor_data", "model_repository"]
        return json_response({"name": "fleetrec", "version": __version__, "extensions": extensions})

    async def _live(self, _request: Request) -> Response:
        return json_response({"live": True})

    async def _ready(self, _request: Request) -> Response:
        is_ready = self._source.loaded is not None
        return json_response({"ready": is_ready}, status=200 if is_ready else 503)

    async def _model(self, request: Request) -> Response:
        self._check_name(request)
        loaded = self._loaded()
        manifest = loaded.predictor.manifest
        self._check_version(request, version_of(manifest), manifest.fingerprint)
        description = {
            "name": self._name,
            "versions": [version_of(manifest)],
            "platform": "fleetrec_onnx",
            **loaded.signature.metadata(),
        }
        return json_response(description)

    async def _model_ready(self, request: Request) -> Response:
        self._check_name(request)
        manifest = self._loaded().predictor.manifest
        self._check_version(request, version_of(manifest), manifest.fingerprint)
        return json_response({"name": self._name, "ready": True})

    async def _index(self, _request: Request) -> Response:
        loaded = self._source.loaded
        entry = {"name": self._name, "state": "UNAVAILABLE", "reason": "no model is loaded yet"}
        if loaded is not None:
            version = version_of(loaded.predictor.manifest)
            entry = {"name": self._name, "version": version, "state": "READY", "reason": ""}
        return json_response([entry])

    async def _load(self, request: Request) -> Response:
        self._check_name(request)
        try:
            await self._reload()
        except FleetRecError as error:
            raise RequestError(f"the loaded version stays: {error}", status=503) from None
        version = version_of(self._loaded().predictor.manifest)
        return json_response({"name": self._name, "version": version})

    async def _reload(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._source.reload)
        self._metrics.num_reloads += 1

    def _on_hangup(self) -> None:
        task = asyncio.get_running_loop().create_task(self._reload_or_warn())
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)

    async def _reload_or_warn(self) -> None:
        try:
            await self._reload()
        except FleetRecError as error:
            logger.warning("the loaded version stays: %s", error)

    async def _page(self, _request: Request) -> Response:
        batcher = self._batcher
        collected = self._metrics.collect(
            self._source, lambda: 0 if batcher is None else batcher.num_waiting
        )
        return PlainTextResponse(to_text(collected), headers={"Content-Type": CONTENT_TYPE})


async def _run(decode: Callable[[], T], num_bytes: int) -> T:
    """Decode a request; a large one in a thread."""
    if num_bytes <= INLINE_BYTES:
        return decode()
    return await asyncio.get_running_loop().run_in_executor(None, decode)


def _refusing(endpoint: Endpoint) -> Endpoint:
    """Return the endpoint; what it refuses becomes a response."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except RequestError as error:
            return error_response(error)

    return answer


async def _not_found(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    reason = "no such path" if status == 404 else "the method is not allowed"
    return error_response(
        RequestError(f"{request.method} {request.url.path}: {reason}", status=status)
    )


def _too_large(limit: int) -> RequestError:
    return RequestError(f"the request: expected at most {limit} bytes", status=413)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
