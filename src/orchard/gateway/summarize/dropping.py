"""Conversations that exceed the context window, and whose oldest messages may be dropped."""

from msgspec.structs import replace

from orchard.core.request import Request
from orchard.core.tasks.generate import Count, count_droppable_messages, drop_oldest, generate_task
from orchard.gateway.pool.pool import Pool
from orchard.gateway.summarize.internal_request import count_tokens, unless_too_long

_SHARE = 8  # 1/8 of the context window is left for the answer


async def count_messages_to_drop(pool: Pool, request: Request, *, leaves_room: bool = False) -> int:
    """Return how many of the oldest messages to drop, as few as possible, so that the request fits.

    With `leaves_room`, an eighth of the window, or the answer's token limit if that is less, stays free for the answer;
    else one token. If it never fits, that is as many as may be dropped. Raise OrchardError if its tokens can't be
    counted.
    """
    dropped, least, most = 0, 0, count_droppable_messages(generate_task(request))
    while least < most:
        if await _fits(pool, request, dropped, leaves_room):
            most = dropped
        else:
            least = dropped + 1
        dropped = (least + most) // 2
    return most


def drop_messages(request: Request, count: int) -> Request:
    """Return a request without its `count` oldest messages."""
    return replace(request, task=drop_oldest(generate_task(request), count)) if count else request


async def _fits(pool: Pool, request: Request, dropped: int, leaves_room: bool) -> bool:
    task = drop_oldest(generate_task(request), dropped)
    window = pool.find(request.model, request.adapter).entry.context_window
    limits = [limit for limit in (window, task.window) if limit]
    tokens = await unless_too_long(count_tokens(pool, replace(request, id=f"{request.id}-{dropped}", task=Count(task))))
    if tokens is None or not limits:
        return tokens is not None
    share = max(1, min(limits) // _SHARE)
    return tokens + (min(task.max_tokens or share, share) if leaves_room else 1) <= min(limits)
