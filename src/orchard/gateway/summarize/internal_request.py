"""Requests that the gateway makes on its own, for a caller who waits."""

import asyncio
import itertools
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request as HttpRequest

from orchard.core.errors import OrchardError
from orchard.core.events import Collected
from orchard.core.request import Request
from orchard.core.tasks.generate import Count, Generate
from orchard.gateway.pool.pool import Pool
from orchard.gateway.replies.event_stream import whole

T = TypeVar("T")


async def attended(http: HttpRequest, work: Coroutine[Any, Any, T]) -> T:
    """Return what the work brings, for the caller of a request whose body has been read; it ends when that caller goes.

    Raises OrchardError ("cancelled") in that case, and what the work raises.
    """
    task, watch = asyncio.create_task(work), asyncio.create_task(_gone(http))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise OrchardError("cancelled", "the client closed the connection")
        return task.result()
    finally:
        task.cancel()
        watch.cancel()


async def _gone(http: HttpRequest) -> None:
    while (await http.receive())["type"] != "http.disconnect":
        pass


async def ask(pool: Pool, request: Request) -> Collected:
    """Give the whole answer; whoever stops waiting for it ends the work. Raises OrchardError."""
    stream = pool.open(request)
    try:
        return await whole(stream)
    finally:
        stream.close()


async def count(pool: Pool, request: Request) -> int:
    """Give the tokens of a prompt; `request` asks to count them. Raises OrchardError."""
    return (await ask(pool, request)).usage.prompt_tokens


class InternalRequest:
    """What is asked on behalf of one request: by its id and a number, of its model, with its priority."""

    def __init__(self, pool: Pool, request: Request) -> None:
        self._pool = pool
        self._about = request.id, request.model, request.priority, request.adapter, request.ttl
        self._numbers = itertools.count(1)

    async def answer(self, task: Generate) -> Collected:
        """Have something made. Raises OrchardError."""
        return await ask(self._pool, self._request(task))

    async def count(self, task: Generate) -> int:
        """Have the tokens of a prompt counted. Raises OrchardError."""
        return await count(self._pool, self._request(Count(task)))

    def _request(self, task: Generate | Count) -> Request:
        id_, model, priority, adapter, ttl = self._about
        return Request(f"{id_}-{next(self._numbers)}", model, task, priority, adapter, ttl)
