"""The error of a request that gets no prediction."""

from fleetrec.core.errors import FleetRecError


class RequestError(FleetRecError):
    """A request is refused; the message is sent to the client with an HTTP status."""

    def __init__(
        self, message: str, *, status: int = 400, retry_after_s: int | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s
