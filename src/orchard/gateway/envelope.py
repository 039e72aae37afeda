"""What goes around every request: its id, its log line, and the limit on how many there are at once."""

import contextvars
import logging
import time
import uuid

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchard.core.errors import OrchardError
from orchard.gateway.failures import failure
from orchard.gateway.metrics import Metrics, http_scope, route_of

log = logging.getLogger("orchard.access")

_request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="-")


class RequestIdFilter(logging.Filter):
    """Gives each log record the id of the request it was written in."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Set `record.request_id`; nothing is dropped."""
        record.request_id = _request_id.get()
        return True


class Envelope:
    """ASGI middleware: gives each request an id (`request.state.id`, the x-request-id header, log lines), logs and
    counts it when its response is complete, and refuses more than `max_requests` at once. GET is always answered: it
    costs nothing, and a server that is busy must be able to say so."""

    def __init__(self, app: ASGIApp, max_requests: int, metrics: Metrics) -> None:
        self._app = app
        self._max = max_requests
        self._metrics = metrics
        self._active = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run as an ASGI application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = f"req_{uuid.uuid4().hex}"
        _request_id.set(request_id)
        scope.setdefault("state", {})["id"] = request_id
        http_scope.set(scope)
        begin = time.monotonic()
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                ids = [
                    (name, request_id.encode()) for name in (b"x-request-id", b"request-id")
                ]  # OpenAI's, Anthropic's
                message["headers"] = [*message["headers"], *ids]
            await send(message)

        counted = scope["method"] != "GET"
        app = self._busy(scope) if counted and self._active >= self._max else self._app
        self._active += counted
        try:
            await app(scope, receive, send_with_id)
        finally:
            self._active -= counted
            if status:  # else the client went away before there was one
                self._metrics.responses[route_of(scope), status] += 1
            # The path as it came: decoded, it could hold line ends and colours for whoever reads the log.
            path = scope["raw_path"].decode("ascii", "backslashreplace")
            log.info("%s %s %d %.3f s", scope["method"], path, status, time.monotonic() - begin)

    def _busy(self, scope: Scope) -> ASGIApp:
        error = OrchardError("overloaded", f"the server has {self._max} requests in hand already", retry_after=1)
        return failure(scope, error)
