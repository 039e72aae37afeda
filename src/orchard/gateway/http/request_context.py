"""Request ids, log lines of requests, checks before requests, and the limit on concurrent requests."""

import contextlib
import contextvars
import logging
import time
import uuid
from collections.abc import Callable, Iterator, Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchard.core.errors import OrchardError
from orchard.core.fair_queue import has_place
from orchard.gateway.caller import Caller
from orchard.gateway.metrics.counters import Metrics, http_scope, route_of
from orchard.gateway.replies.errors import Dialects, error_response
from orchard.gateway.replies.warnings import warning_header

log = logging.getLogger("orchard.access")

# Monitors and open consoles look again and again; their lines would hide all others.
_LOOKS = {"/health", "/ready", "/metrics", "/v1/stats", "/v1/requests", "/v1/logs"}
_STARTS = ("http.response.start", "websocket.http.response.start", "websocket.accept")

logged_request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="-")
"""The id of the request that a log record belongs to."""


def add_request_id(record: logging.LogRecord) -> bool:
    """Set `record.request_id` to the id of the current request. Keep all records."""
    record.request_id = logged_request_id.get()
    return True


class RequestLimit:
    """Counts the requests that the server is working on, and limits them; see `has_place`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._callers: dict[object, str] = {}

    @contextlib.contextmanager
    def count_request(self, caller: str) -> Iterator[None]:
        """Count a request of a caller while the context lasts. Raise OrchardError("overloaded")."""
        if not has_place(self._most, self._callers.values(), caller):
            raise OrchardError("overloaded", f"the server is working on {self._most} requests already", retry_after=1)
        place = object()
        self._callers[place] = caller
        try:
            yield
        finally:
            del self._callers[place]


class RequestContextMiddleware:
    """ASGI middleware: gives each request an id (`request.state.id`, the x-request-id header, log lines), logs and
    counts it when its response is complete, rejects those for which one of the `checks` raises OrchardError and more
    than `max_requests` at once. One of the checks sets `request.state.caller`. GET requests don't count as concurrent,
    so that a busy server can report its state. Requests over a WebSocket count themselves (`request.state.in_hand`)."""

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
        self._in_hand = RequestLimit(max_requests)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run as an ASGI application."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        scope["path"] = scope["path"].rstrip("/") or "/"  # some clients end URLs with a slash
        method = scope.get("method", "WEBSOCKET")
        request_id = f"req_{uuid.uuid4().hex}"
        logged_request_id.set(request_id)
        begin = time.monotonic()
        scope.setdefault("state", {}).update(id=request_id, in_hand=self._in_hand, dialects=self._dialects)
        if method != "WEBSOCKET":  # one connection carries many requests
            scope["state"]["arrived_at"] = begin
        http_scope.set(scope)
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] in _STARTS:
                status = message.get("status", 101)
                # OpenAI's name and Anthropic's.
                own = [(name, request_id.encode()) for name in (b"x-request-id", b"request-id")]
                for warning in scope["state"].get("warnings", ()):
                    own += [(name.encode(), value.encode()) for name, value in warning_header(warning).items()]
                message["headers"] = [*message.get("headers", ()), *own]
            await send(message)

        try:
            for check in self._checks:
                check(scope)
            caller: Caller = scope["state"]["caller"]
            with (
                contextlib.nullcontext() if method in ("GET", "WEBSOCKET") else self._in_hand.count_request(caller.name)
            ):
                await self._app(scope, receive, send_with_id)
        except OrchardError as error:  # errors inside the application have been answered there
            await error_response(scope, error)(scope, receive, send_with_id)
        finally:
            if status:  # 0: the client disconnected before the response
                self._metrics.responses[route_of(scope), status] += 1
            # Log the undecoded path: a decoded one could contain line ends and terminal escapes.
            path = scope["raw_path"].decode("ascii", "backslashreplace")
            is_look = method == "GET" and status == 200 and scope["path"] in _LOOKS
            level = logging.DEBUG if is_look else logging.INFO
            log.log(level, "%s %s %d %.3f s", method, path, status, time.monotonic() - begin)
