"""API keys: a request without a valid one is refused."""

from starlette.datastructures import Headers
from starlette.types import Scope

from orchard.core.errors import OrchardError
from orchard.gateway.caller import Callers

_HEADERS = ("x-api-key", "api-key")
# The paths that probes request before they know of a key.
_OPEN = {("GET", "/health"), ("GET", "/ready"), ("GET", "/"), ("HEAD", "/")}


def check_key(callers: Callers, scope: Scope) -> None:
    """Set the caller of a request (`request.state.caller`), whose key is Authorization: Bearer, x-api-key or api-key.

    OPTIONS, by which browsers ask what they may send, needs no key. Raise OrchardError("unauthorized").
    """
    headers = Headers(scope=scope)
    given = [value for name in _HEADERS for value in headers.getlist(name)]
    for value in headers.getlist("authorization"):
        scheme, _, key = value.partition(" ")
        if scheme.lower() == "bearer":
            given.append(key)
    # Stripped as bytes: the last byte of a letter may look like a space of Latin-1.
    caller = scope["state"]["caller"] = callers.identify(key.encode("latin-1").strip() for key in given)
    method = scope.get("method")  # a WebSocket has none
    if not caller.known and method != "OPTIONS" and (method, scope["path"]) not in _OPEN:
        wrong = "the API key is wrong" if given else "an API key is needed"
        message = f"{wrong}: send one of this server's keys as 'Authorization: Bearer KEY', x-api-key or api-key"
        raise OrchardError("unauthorized", message)
    if method == "POST":
        callers.remember(scope["state"]["id"], caller)
