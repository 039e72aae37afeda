"""Reading requests' bodies: each is limited in size and time, and all together in memory."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from starlette.requests import Request

from orchard.config import Settings
from orchard.core.errors import OrchardError

# How much of a body that is too large is read and dropped, so that its sender begins to read the answer.
_DRAIN_BYTES = 256 * 1024 * 1024
_DRAIN_SECONDS = 2.0


class BodyReader:
    """Reads the bodies of one server's requests."""

    def __init__(self, settings: Settings) -> None:
        self._limit = settings.max_body_bytes
        self._timeout = settings.body_timeout
        self._left = settings.max_body_bytes_in_flight

    async def read(self, http: Request) -> bytes:
        """Return the whole body.

        Raise OrchardError: payload_too_large, timeout, overloaded if too many bytes are arriving already, cancelled if
        the client leaves, invalid_request if the body is compressed or its content type is not JSON.
        """
        _check_type(http)
        if (encoding := http.headers.get("content-encoding", "identity")) != "identity":
            raise OrchardError("invalid_request", f"the content-encoding '{encoding}' is not supported; send it plain")
        chunks = _chunks(http)
        too_large = OrchardError("payload_too_large", f"the request body is over the limit of {self._limit} bytes")
        if int(http.headers.get("content-length", 0)) > self._limit:
            if "expect" not in http.headers:  # a client that asks first has not begun to send
                await _drain(chunks)
            raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(self._timeout):
                async for chunk in chunks:
                    if len(body) + len(chunk) > self._limit:
                        await _drain(chunks)
                        raise too_large
                    body += chunk
                    self._left -= len(chunk)
                    if self._left < 0:
                        message = "too many bytes of request bodies are arriving already"
                        raise OrchardError("overloaded", message, retry_after=1)
        except TimeoutError:
            message = f"the request body did not arrive within {self._timeout:g} seconds"
            raise OrchardError("timeout", message) from None
        finally:
            self._left += len(body)
        return bytes(body)


def _check_type(http: Request) -> None:
    """Refuse what a web page can send to any server without asking first, as a foreign page would.

    A request without a content type passes, unless it has an origin, which means that a browser sends it.
    """
    given = http.headers.get("content-type", "" if "origin" in http.headers else "application/json")
    kind = given.partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        message = (
            f"the content type must be application/json, not '{given}'" if given else "the content type is missing"
        )
        raise OrchardError("invalid_request", f"{message}: send the header 'content-type: application/json'")


async def _chunks(http: Request) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await http.receive()
        if message["type"] == "http.disconnect":
            raise OrchardError("cancelled", "the client closed the connection")
        yield message.get("body", b"")
        more = message.get("more_body", False)


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Drop what still arrives, up to the limits."""
    drained = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for chunk in chunks:
                drained += len(chunk)
                if drained > _DRAIN_BYTES:
                    return
