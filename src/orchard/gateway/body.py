"""Reading a request's body: bounded in size and time."""

import asyncio

from starlette.requests import ClientDisconnect, Request

from orchard.core.errors import OrchardError


async def read_body(http: Request, limit: int, timeout: float) -> bytes:
    """Give the whole body.

    Raises OrchardError: payload_too_large over `limit` bytes (before reading, where the length is announced), timeout
    after `timeout` seconds, cancelled where the client leaves.
    """
    too_large = OrchardError("payload_too_large", f"the request body is over the limit of {limit} bytes")
    if int(http.headers.get("content-length", 0)) > limit:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(timeout):
            async for chunk in http.stream():
                body += chunk
                if len(body) > limit:
                    raise too_large
    except TimeoutError:
        raise OrchardError("timeout", f"the request body did not arrive within {timeout:g} seconds") from None
    except ClientDisconnect:
        raise OrchardError("cancelled", "the client closed the connection") from None
    return bytes(body)
