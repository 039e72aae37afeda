"""Requests that the gateway itself makes for a waiting caller."""

import asyncio
import itertools
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from msgspec.structs import replace
from starlette.requests import Request as HttpRequest

from orchard.core.errors import OrchardError
from orchard.core.events import Collected
from orchard.core.request import Request
from orchard.core.tasks.generate import Count, Generate
from orchard.gateway.pool.pool import Pool
from orchard.gateway.replies.event_response import disconnected
from orchard.gateway.replies.event_stream import whole

T = TypeVar("T")


async def attended(http: HttpRequest, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`; cancel it if the caller disconnects. The body of the request must have been read.

    Raise OrchardError ("cancelled") if the caller disconnects, and the errors of `work`.
    """
    task, watch = asyncio.create_task(work), asyncio.create_task(disconnected(http.receive))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.add_done_callback(_passed_over)
            raise OrchardError("cancelled", "the client closed the connection")
        return task.result()
    finally:
        task.cancel()
        watch.cancel()


def _passed_over(task: asyncio.Task[Any]) -> None:
    """Retrieve the error of work that nobody awaits, which may have failed before it was cancelled."""
    if not task.cancelled():
        task.exception()  # asyncio would log it otherwise


async def ask(pool: Pool, request: Request) -> Collected:
    """Return the whole answer; cancelling ends the request. Raise OrchardError if it fails."""
    stream = pool.open(request)
    try:
        return await whole(stream)
    finally:
        stream.close()


async def count(pool: Pool, request: Request) -> int:
    """Return the number of a prompt's tokens; the task of `request` is `Count`. Raise OrchardError if it fails."""
    return (await ask(pool, request)).usage.prompt_tokens


async def unless_too_long(tokens: Awaitable[int]) -> int | None:
    """Return a count of tokens; None if the prompt is too long to be counted. Raise other OrchardErrors."""
    try:
        return await tokens
    except OrchardError as error:
        if error.kind == "context_length_exceeded":
            return None
        raise


class InternalRequest:
    """Makes requests for another one: to its model, with its priority, and with its id and a number as id."""

    def __init__(self, pool: Pool, request: Request) -> None:
        self._pool = pool
        self.origin = request
        self._numbers = itertools.count(1)

    async def answer(self, task: Generate) -> Collected:
        """Return the whole answer to a task. Raise OrchardError if it fails."""
        return await ask(self._pool, self._request(task))

    async def count(self, task: Generate) -> int:
        """Return the number of tokens of a task's prompt. Raise OrchardError if it can't be counted."""
        return await count(self._pool, self._request(Count(task)))

    def _request(self, task: Generate | Count) -> Request:
        return replace(self.origin, id=f"{self.origin.id}-{next(self._numbers)}", task=task)
