"""Work for a caller who may leave before it is done."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request

from orchard.core.errors import OrchardError
from orchard.gateway.replies.event_response import wait_for_disconnect

T = TypeVar("T")


async def cancel_on_disconnect(http: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`; cancel it if the caller disconnects. The body of the request must have been read.

    Raise OrchardError ("cancelled") if the caller disconnects, and the errors of `work`.
    """
    task, watch = asyncio.create_task(work), asyncio.create_task(wait_for_disconnect(http.receive))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.add_done_callback(_retrieve_error)
            raise OrchardError("cancelled", "the client closed the connection")
        return task.result()
    finally:
        task.cancel()
        watch.cancel()


def _retrieve_error(task: asyncio.Task[Any]) -> None:
    """Retrieve the error of work that nobody awaits, which may have failed before it was cancelled."""
    if not task.cancelled():
        task.exception()  # asyncio would log it otherwise
