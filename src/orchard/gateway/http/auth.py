"""API keys: a request without a valid one is refused."""

from collections.abc import Iterator

from starlette.types import Scope

from orchard.core.errors import OrchardError
from orchard.gateway.caller import Callers

_HEADERS = (b"x-api-key", b"api-key")
# The paths that probes request before they know of a key.
_OPEN = {("GET", "/health"), ("GET", "/ready"), ("GET", "/"), ("HEAD", "/")}


class Keys:
    """Lets requests pass that have one of the keys, as `Authorization: Bearer`, x-api-key or api-key.

    OPTIONS, by which browsers ask what they may send, needs no key.
    """

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    def check(self, scope: Scope) -> None:
        """Set the caller of a request (`request.state.caller`). Raise OrchardError("unauthorized")."""
        given = list(_given(scope))
        caller = scope["state"]["caller"] = self._callers.identify(given)
        if not caller.known and not _is_open(scope):
            wrong = "the API key is wrong" if given else "an API key is needed"
            message = f"{wrong}: send one of this server's keys as 'Authorization: Bearer KEY', x-api-key or api-key"
            raise OrchardError("unauthorized", message)
        if scope.get("method") == "POST":
            self._callers.remember(scope["state"]["id"], caller)


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
