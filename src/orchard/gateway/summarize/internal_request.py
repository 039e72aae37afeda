"""Requests that the gateway itself makes for a waiting caller."""

import itertools
from collections.abc import Awaitable

from msgspec.structs import replace

from orchard.core.errors import OrchardError
from orchard.core.events import Collected
from orchard.core.request import Request
from orchard.core.tasks.generate import Count, Generate
from orchard.gateway.pool.pool import Pool
from orchard.gateway.replies.event_stream import collect_events


async def collect_answer(pool: Pool, request: Request) -> Collected:
    """Return the whole answer; cancelling ends the request. Raise OrchardError if it fails."""
    stream = pool.stream(request)
    try:
        return await collect_events(stream)
    finally:
        stream.close()


async def count_tokens(pool: Pool, request: Request) -> int:
    """Return the number of a prompt's tokens; the task of `request` is `Count`. Raise OrchardError if it fails."""
    return (await collect_answer(pool, request)).usage.prompt_tokens


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
        return await collect_answer(self._pool, self._request(task))

    async def count(self, task: Generate) -> int:
        """Return the number of tokens of a task's prompt. Raise OrchardError if it can't be counted."""
        return await count_tokens(self._pool, self._request(Count(task)))

    def _request(self, task: Generate | Count) -> Request:
        return replace(self.origin, id=f"{self.origin.id}-{next(self._numbers)}", task=task)
