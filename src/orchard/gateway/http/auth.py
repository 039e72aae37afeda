"""API keys: who has none is told so, in the dialect of the request."""

from collections.abc import Iterator

from starlette.types import ASGIApp, Receive, Scope, Send

from orchard.core.errors import OrchardError
from orchard.gateway.caller import Callers
from orchard.gateway.replies.errors import failure

_HEADERS = (b"x-api-key", b"api-key")
# What probes ask for before they know of a key.
_OPEN = {("GET", "/health"), ("GET", "/ready"), ("GET", "/"), ("HEAD", "/")}


class Keys:
    """ASGI middleware: lets requests pass that bring one of the keys, as `Authorization: Bearer`, x-api-key or api-key.

    Says who makes each request (`request.state.caller`). OPTIONS, by which browsers ask what they may send, is open.
    """

    def __init__(self, app: ASGIApp, callers: Callers) -> None:
        self._app = app
        self._callers = callers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run as an ASGI application."""
        app = self._app
        if scope["type"] in ("http", "websocket"):
            given = list(_given(scope))
            caller = scope["state"]["caller"] = self._callers.identify(given)
            if not caller.known and not _is_open(scope):
                wrong = "the API key is wrong" if given else "an API key is needed"
                message = (
                    f"{wrong}: send one of this server's keys as 'Authorization: Bearer KEY', x-api-key or api-key"
                )
                app = failure(scope, OrchardError("unauthorized", message))
            elif scope.get("method") == "POST":
                self._callers.remember(scope["state"]["id"], caller)
        await app(scope, receive, send)


def _is_open(scope: Scope) -> bool:
    method = scope.get("method")  # a WebSocket has none
    return method == "OPTIONS" or (method, scope["path"]) in _OPEN


def _given(scope: Scope) -> Iterator[bytes]:
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, key = value.partition(b" ")
            if scheme.lower() == b"bearer":
                yield key.strip()
        elif name in _HEADERS:
            yield value.strip()
