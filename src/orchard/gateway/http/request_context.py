"""Every request's id, its log line, the checks before it, and the limit on requests at once."""

import contextlib
import contextvars
import logging
import time
import uuid
from collections.abc import Callable, Iterator, Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchard.core.errors import OrchardError
from orchard.gateway.metrics.counters import Metrics, http_scope, route_of
from orchard.gateway.replies.errors import Dialects, failure

log = logging.getLogger("orchard.access")

_STARTS = ("http.response.start", "websocket.http.response.start", "websocket.accept")

logged_request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="-")
"""The id of the request that log records belong to."""


def add_request_id(record: logging.LogRecord) -> bool:
    """Filter log records: set `record.request_id` to the request that each was written in, and drop none."""
    record.request_id = logged_request_id.get()
    return True


class InHand:
    """The requests that the server is working on, and how many there may be."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """Count a request for as long as this lasts. Raise OrchardError("overloaded")."""
        if self._count >= self._most:
            raise OrchardError("overloaded", f"the server is working on {self._most} requests already", retry_after=1)
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1


class RequestContextMiddleware:
    """ASGI middleware: gives each request an id (`request.state.id`, the x-request-id header, log lines), logs and
    counts it when its response is complete, refuses more than `max_requests` at once and those for which one of the
    `checks` raises OrchardError. GET is always answered: it costs nothing, and a server that is busy must be able to
    say so. Requests over a WebSocket count themselves (`request.state.in_hand`)."""

    def __init__(
        self,
        app: ASGIApp,
        max_requests: int,
        checks: Sequence[Callable[[Scope], None]],
        metrics: Metrics,
        dialects: Dialects,
    ) -> None:
        self._app = app
        self._checks = checks
        self._metrics = metrics
        self._dialects = dialects
        self._in_hand = InHand(max_requests)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run as an ASGI application."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        method = scope.get("method", "WEBSOCKET")
        request_id = f"req_{uuid.uuid4().hex}"
        logged_request_id.set(request_id)
        scope.setdefault("state", {}).update(id=request_id, in_hand=self._in_hand, dialects=self._dialects)
        http_scope.set(scope)
        begin = time.monotonic()
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] in _STARTS:
                status = message.get("status", 101)
                # OpenAI's name and Anthropic's.
                ids = [(name, request_id.encode()) for name in (b"x-request-id", b"request-id")]
                message["headers"] = [*message.get("headers", ()), *ids]
            await send(message)

        try:
            with contextlib.nullcontext() if method in ("GET", "WEBSOCKET") else self._in_hand.one():
                for check in self._checks:
                    check(scope)
                await self._app(scope, receive, send_with_id)
        except OrchardError as error:  # those of the application are answered within it
            await failure(scope, error)(scope, receive, send_with_id)
        finally:
            if status:  # else the client went away before there was one
                self._metrics.responses[route_of(scope), status] += 1
            # The path as it came: decoded, it could hold line ends and colours for whoever reads the log.
            path = scope["raw_path"].decode("ascii", "backslashreplace")
            log.info("%s %s %d %.3f s", method, path, status, time.monotonic() - begin)
