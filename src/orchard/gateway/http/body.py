"""Reading requests' bodies: each is limited in size and time, and all together in memory."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from starlette.requests import ClientDisconnect, Request

from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.gateway.http.budget import Budget, Share

# How much of a body that is too large is read and dropped, so that its sender begins to read the answer.
_DRAIN_BYTES = 256 * 1024 * 1024
_DRAIN_SECONDS = 2.0


class BodyReader:
    """Reads the bodies of one server's requests."""

    def __init__(self, settings: Settings, budget: Budget) -> None:
        """All bodies that are arriving hold their bytes of `budget`."""
        self._limit = settings.max_body_bytes
        self._timeout = settings.body_timeout
        self._budget = budget

    async def read(self, http: Request) -> bytes:
        """Return the whole body.

        Raise OrchardError: payload_too_large, timeout, overloaded if too many bytes are arriving already, cancelled if
        the client leaves, invalid_request if the body is compressed or its content type is not JSON.
        """
        if not is_json(http):
            given = http.headers.get("content-type")
            message = f"must be application/json, not '{given}'" if given else "is missing"
            message = f"the content type {message}: send the header 'content-type: application/json'"
            raise OrchardError("invalid_request", message)
        if (encoding := http.headers.get("content-encoding", "identity")) != "identity":
            raise OrchardError("invalid_request", f"the content-encoding '{encoding}' is not supported; send it plain")
        chunks = http.stream()
        too_large = OrchardError("payload_too_large", f"the request body exceeds the limit of {self._limit} bytes")
        body, share = bytearray(), Share(self._budget)
        try:
            if int(http.headers.get("content-length", 0)) > self._limit:
                if "expect" not in http.headers:  # a client that asks first has not begun to send
                    await drain(chunks)
                raise too_large
            async with asyncio.timeout(self._timeout):
                async for chunk in chunks:
                    if len(body) + len(chunk) > self._limit:
                        await drain(chunks)
                        raise too_large
                    body += chunk
                    share.take(len(body))
        except ClientDisconnect:
            raise OrchardError("cancelled", "the client closed the connection") from None
        except TimeoutError:
            message = f"the request body did not arrive within {self._timeout:g} seconds"
            raise OrchardError("timeout", message) from None
        finally:
            share.take(0)
        return bytes(body)


def is_json(http: Request) -> bool:
    """Return whether a body is JSON by its type, which a web page can't send to any server without asking first.

    A request without a content type passes, unless it has an origin, which means that a browser sends it.
    """
    given = http.headers.get("content-type", "" if "origin" in http.headers else "application/json")
    kind = given.partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


async def drain(chunks: AsyncIterator[bytes]) -> None:
    """Drop what still arrives, up to the limits."""
    drained = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for chunk in chunks:
                drained += len(chunk)
                if drained > _DRAIN_BYTES:
                    return
