"""The outermost layer of the server: token, counts by status, and no traceback for clients."""

import hmac
import logging
from typing import Any

import orjson
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fleetrec.serving.metrics import ServingMetrics
from fleetrec.serving.request_error import RequestError
from fleetrec.serving.tensors import shown

logger = logging.getLogger(__name__)

OPEN_PATHS = ("/v2/health/live", "/v2/health/ready")  # for probes, which have no token

# The body may still be on its way; the connection cannot be used for another request.
BODY_UNREAD = frozenset({401, 404, 408, 413, 415, 503})


def json_response(content: Any, *, status: int = 200) -> Response:
    """Return a response of JSON."""
    return Response(orjson.dumps(content), status_code=status, media_type="application/json")


def error_response(error: RequestError) -> Response:
    """Return why a request is refused."""
    response = json_response({"error": str(error)}, status=error.status)
    if error.status in BODY_UNREAD:
        response.headers["Connection"] = "close"
    if error.retry_after_s is not None:
        response.headers["Retry-After"] = str(error.retry_after_s)
    return response


class Gate:
    """Refuses requests without the token, counts responses by status, and may log them."""

    def __init__(
        self,
        app: ASGIApp,
        metrics: ServingMetrics,
        *,
        token: str | None,
        access_log: bool = False,
    ) -> None:
        self._app = app
        self._access_log = access_log
        self._metrics = metrics
        self._expected = None if token is None else f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_started = False

        async def counted(message: Message) -> None:
            nonlocal is_started
            if message["type"] == "http.response.start":
                is_started = True
                self._metrics.count_request(message["status"])
                if self._access_log:
                    logger.info(
                        "%s %s %d", scope["method"], shown(scope["path"]), message["status"]
                    )
            await send(message)

        try:
            if self._is_refused(scope):
                error = RequestError("the token is missing or wrong", status=401)
                await error_response(error)(scope, receive, counted)
            else:
                await self._app(scope, receive, counted)
        except Exception:  # a fault of this program
            logger.exception("%s %s failed", scope["method"], scope["path"])
            if is_started:
                raise
            internal = RequestError("internal error; see the log of the server", status=500)
            await error_response(internal)(scope, receive, counted)

    def _is_refused(self, scope: Scope) -> bool:
        if self._expected is None or scope["path"] in OPEN_PATHS:
            return False
        given = next((value for key, value in scope["headers"] if key == b"authorization"), b"")
        return not hmac.compare_digest(given, self._expected)
