"""API keys: who has none is told so, in the dialect of the request."""

import hashlib
import hmac
from collections.abc import Iterator, Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

from orchard.core.errors import OrchardError
from orchard.gateway.failures import failure

_HEADERS = (b"x-api-key", b"api-key")
# What probes ask for before they know of a key.
_OPEN = {("GET", "/health"), ("GET", "/ready"), ("GET", "/"), ("HEAD", "/")}


class Keys:
    """ASGI middleware: lets requests pass that bring one of the keys, as `Authorization: Bearer`, x-api-key or api-key.

    OPTIONS, by which browsers ask what they may send, is open.
    """

    def __init__(self, app: ASGIApp, keys: Sequence[str]) -> None:
        self._app = app
        self._digests = [_digest(key.encode()) for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run as an ASGI application."""
        app = self._app
        if scope["type"] == "http" and not _is_open(scope):
            given = list(_given(scope))
            if not any(map(self._is_known, given)):
                wrong = "the API key is wrong" if given else "an API key is needed"
                message = (
                    f"{wrong}: send one of this server's keys as 'Authorization: Bearer KEY', x-api-key or api-key"
                )
                app = failure(scope, OrchardError("unauthorized", message))
        await app(scope, receive, send)

    def _is_known(self, key: bytes) -> bool:
        """Compare with every key, in a time that tells nothing of any of them."""
        digest = _digest(key)
        return sum(hmac.compare_digest(digest, known) for known in self._digests) > 0


def _is_open(scope: Scope) -> bool:
    return scope["method"] == "OPTIONS" or (scope["method"], scope["path"]) in _OPEN


def _given(scope: Scope) -> Iterator[bytes]:
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, key = value.partition(b" ")
            if scheme.lower() == b"bearer":
                yield key.strip()
        elif name in _HEADERS:
            yield value.strip()


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
