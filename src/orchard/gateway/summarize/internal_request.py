"""Requests that the gateway makes itself, for a caller who waits."""

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
    """Return the result of `work`, which ends when the caller goes; the body of the request has been read.

    Raise OrchardError ("cancelled") then, and what the work raises.
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
    """Take note of how work ended that nobody waits for: it may have failed before it was cancelled."""
    if not task.cancelled():
        task.exception()  # which asyncio would log


async def ask(pool: Pool, request: Request) -> Collected:
    """Return the whole answer; cancelling ends the work. Raise OrchardError."""
    stream = pool.open(request)
    try:
        return await whole(stream)
    finally:
        stream.close()


async def count(pool: Pool, request: Request) -> int:
    """Return the number of a prompt's tokens; `request` is one to count them. Raise OrchardError."""
    return (await ask(pool, request)).usage.prompt_tokens


async def unless_too_long(tokens: Awaitable[int]) -> int | None:
    """Return a count of tokens; None if the prompt is too long to be counted. Raise OrchardError."""
    try:
        return await tokens
    except OrchardError as error:
        if error.kind == "context_length_exceeded":
            return None
        raise


class InternalRequest:
    """Requests on behalf of another one: with its id and a number, to its model, with its priority."""

    def __init__(self, pool: Pool, request: Request) -> None:
        self._pool = pool
        self.origin = request
        self._numbers = itertools.count(1)

    async def answer(self, task: Generate) -> Collected:
        """Return the whole answer to a task. Raise OrchardError."""
        return await ask(self._pool, self._request(task))

    async def count(self, task: Generate) -> int:
        """Return the number of tokens of a task's prompt. Raise OrchardError."""
        return await count(self._pool, self._request(Count(task)))

    def _request(self, task: Generate | Count) -> Request:
        return replace(self.origin, id=f"{self.origin.id}-{next(self._numbers)}", task=task)
