"""A response that holds a resource until it has been sent."""

from collections.abc import Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send


class HeldResponse(Response):
    """Sends another response, and calls `release` once that has been sent, or could not be."""

    def __init__(self, inner: Response, release: Callable[[], None]) -> None:
        super().__init__()
        self._inner = inner
        self._release = release

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run as an ASGI application."""
        try:
            await self._inner(scope, receive, send)
        finally:
            self._release()
