"""Read request bodies, with limits on the size and the time of each one, and on the memory of all together."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from starlette.requests import ClientDisconnect, Request

from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.gateway.http.budget import Budget, Share

# Of a body that is too large, read and drop at most this much, so that its sender begins to read the response.
_DRAIN_BYTES = 256 * 1024 * 1024
_DRAIN_SECONDS = 2.0
# Browsers send one of these with each POST of a page.
_PAGE_HEADERS = {"origin", "sec-fetch-site"}


class BodyReader:
    """Reads the bodies of one server's requests."""

    def __init__(self, settings: Settings, budget: Budget) -> None:
        """`budget`: the bytes of all bodies that are arriving."""
        self._limit = settings.max_body_bytes
        self._timeout = settings.body_timeout
        self._budget = budget

    async def read(self, http: Request, *, takes_any_type: bool = False) -> bytes:
        """Return the whole body; with `takes_any_type`, what no web page has sent may have any content type.

        Raise OrchardError: payload_too_large, timeout, overloaded if too many bytes are arriving already, cancelled if
        the client leaves, invalid_request if the body is compressed or its content type is not JSON.
        """
        if not (is_json(http) or (takes_any_type and _PAGE_HEADERS.isdisjoint(http.headers))):
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
                if "expect" not in http.headers:  # a client with an Expect header has not begun to send
                    await drain_body(chunks)
                raise too_large
            async with asyncio.timeout(self._timeout):
                async for chunk in chunks:
                    if len(body) + len(chunk) > self._limit:
                        await drain_body(chunks)
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
    """Return whether a body's content type is JSON, which web pages can't send elsewhere without a CORS preflight.

    A request without a content type passes, unless it has an Origin header: then a browser has sent it.
    """
    given = http.headers.get("content-type", "" if "origin" in http.headers else "application/json")
    kind = given.partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


async def drain_body(chunks: AsyncIterator[bytes]) -> None:
    """Read and drop the rest of a body, up to the limits."""
    drained = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for chunk in chunks:
                drained += len(chunk)
                if drained > _DRAIN_BYTES:
                    return
