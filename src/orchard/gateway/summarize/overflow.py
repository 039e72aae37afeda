"""Conversations that exceed the context window: a summary replaces their older messages, if the caller wants that, or
the oldest messages are dropped.

A request first goes to the model unchanged. If the model rejects it for its length, it is shortened and tried again,
but only once. If it is still too long, the caller gets the first error.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.core.events import Event, Failed, Started, Summary
from orchard.core.request import Request
from orchard.core.tasks.generate import Count, Generate, generate_task
from orchard.gateway.models.entry import ModelEntry
from orchard.gateway.pool.pool import Pool
from orchard.gateway.replies.event_stream import EventStream
from orchard.gateway.summarize.dropping import count_messages_to_drop, drop_messages
from orchard.gateway.summarize.internal_request import InternalRequest, unless_too_long
from orchard.gateway.summarize.messages import LongConversation, summary_keys, transcript
from orchard.gateway.summarize.summaries import MadeSummary, Maker, Room, Summaries

log = logging.getLogger("orchard.gateway.summarize.overflow")

_SHARE = 8  # 1/8 of the context window is for a summary, and 1/8 is left for the answer
_MOST_SUMMARY = 4096
_LEAST_SUMMARY = 32
_CANCELLED = Failed("cancelled", "the request was cancelled")


class ShortenedRequest(Struct, frozen=True):
    """A request without its older messages, mostly with a summary in their place, and the `Summary` for the caller."""

    request: Request
    summary: Summary


class Overflow:
    """Shortens conversations that are too long, and has the summaries of the server."""

    def __init__(self, pool: Pool, settings: Settings) -> None:
        self.pool = pool
        self._otherwise = settings.context_overflow
        self._summaries = Summaries()

    def wrap(self, request: Request, stream: EventStream) -> EventStream:
        """Return the stream of a request; if its conversation may be shortened, one that does it where needed."""
        task = request.task
        if not self._may_shorten(request) or not isinstance(task, Generate) or task.prompt is not None:
            return stream
        return _Shortening(self, request, stream)

    def limit_count(self, request: Request) -> Request:
        """Return a request to count tokens. They must fit into the window, unless summaries are on."""
        if self._may_shorten(request):
            return request
        return replace(request, task=Count(generate_task(request), must_fit=True))

    def _may_shorten(self, request: Request) -> bool:
        return (request.overflow or self._otherwise) != "error"

    async def summarise(self, request: Request) -> MadeSummary:
        """Return a summary of a whole conversation, guided by its system messages. Raise OrchardError if it fails."""
        task, inquiry = generate_task(request), InternalRequest(self.pool, request)
        entry = self.pool.find(request.model, request.adapter).entry
        guides = [message for message in task.messages if message.role == "system"]
        texts = transcript(task.messages)
        about = f"{entry.id}\0{msgspec.json.encode(guides).decode()}" if guides else entry.id
        names = summary_keys(f"{request.cache_scope}\0{about}", texts)
        window = entry.context_window or await inquiry.count(task) + _MOST_SUMMARY
        room = Room(window, min(max(window // _SHARE, _LEAST_SUMMARY), _MOST_SUMMARY))
        maker = Maker(inquiry, self._summaries, texts, names, guided_by=guides)
        return await self._summaries.make_once(names[-1], lambda: maker.make(room))

    async def shorten(self, request: Request, refused: Failed) -> ShortenedRequest:
        """Return a request that fits. Raise OrchardError ("context_length_exceeded") if there is none."""
        if request.overflow == "drop":
            dropped = await count_messages_to_drop(self.pool, request, leaves_room=True)
            log.info("%d messages were dropped", dropped)
            return ShortenedRequest(drop_messages(request, dropped), Summary(dropped, dropped=True))
        task, inquiry = generate_task(request), InternalRequest(self.pool, request)
        entry = self.pool.find(request.model, request.adapter).entry
        conversation = LongConversation(task.messages)
        count = conversation.furthest
        if not count:
            raise OrchardError("context_length_exceeded", "none of its messages may be summarised")
        texts = conversation.transcript()
        names = summary_keys(f"{request.cache_scope}\0{entry.id}", texts)
        window = await _token_limit(entry, inquiry, task, refused)
        share = max(1, window // _SHARE)
        answer = min(task.max_tokens or share, share)
        # Reusing a summary keeps the prompt's beginning the same from turn to turn, and costs no new summary.
        if known := await self._reuse_summary(inquiry, conversation, names, window - answer):
            return known
        kept = await inquiry.count(replace(task, messages=conversation.with_summary(count, "")))
        room = Room(window, min(share, _MOST_SUMMARY, window - answer - kept))
        if room.summary < _LEAST_SUMMARY:
            raise OrchardError("context_length_exceeded", f"the messages to be kept have {kept} tokens already")
        maker = Maker(inquiry, self._summaries, texts, names)
        try:
            made = await self._summaries.make_once(names[count], lambda: maker.make(room))
        except OrchardError as error:
            if error.kind != "context_length_exceeded":
                raise
            # The part that was summarised may be enough.
            known = await self._reuse_summary(inquiry, conversation, names, window - answer)
            if known is None:
                raise
            return ShortenedRequest(known.request, Summary(known.summary.messages, *maker.spent))
        log.info("%d of %d messages were summarised", count, len(task.messages))
        return _replace_messages(request, conversation, count, made)

    async def _reuse_summary(
        self, inquiry: InternalRequest, conversation: LongConversation, names: Sequence[bytes], most: int
    ) -> ShortenedRequest | None:
        """Return the request with the longest existing summary, if that makes it short enough."""
        known, text = self._summaries.longest(names, conversation.may_replace)
        if not known:
            return None
        found = _replace_messages(inquiry.origin, conversation, known, MadeSummary(text))
        if known == conversation.furthest:
            return found
        tokens = await unless_too_long(inquiry.count(generate_task(found.request)))
        return found if tokens is not None and tokens <= most else None


def _replace_messages(
    request: Request, conversation: LongConversation, count: int, made: MadeSummary
) -> ShortenedRequest:
    task = replace(generate_task(request), messages=conversation.with_summary(count, made.text))
    return ShortenedRequest(replace(request, task=task), Summary(count, made.prompt_tokens, made.completion_tokens))


def _concerns_messages(failed: Failed) -> bool:
    """Return whether shorter messages may help. Not if another field, such as a prediction, is too long."""
    return failed.kind == "context_length_exceeded" and failed.param in (None, "messages")


async def _token_limit(entry: ModelEntry, inquiry: InternalRequest, task: Generate, refused: Failed) -> int:
    """Return the most tokens that prompt and answer may have together, as far as known. Raise OrchardError."""
    window = entry.context_window
    if window is not None and refused.param is not None:
        return window
    # If the window is unknown, or the memory is smaller than the window (then the error names no field), all that is
    # known is that this conversation is too long.
    tokens = await inquiry.count(task)
    return tokens - 1 if window is None else min(window, tokens - 1)


class _Shortening(EventStream):
    """The events of a request or, if its first event is a failure for its length, of its shortened form."""

    def __init__(self, overflow: Overflow, request: Request, inner: EventStream) -> None:
        super().__init__()
        self._inner = inner
        self._overflow = overflow
        self._request = request
        self._refused: Failed | None = None
        self._work: asyncio.Task[ShortenedRequest] | None = None
        self._summary: Summary | None = None
        self._begun = False
        self._closed: Failed | None = None
        self.waits_for = lambda: "summarising earlier messages" if self._work else self._inner.waits_for()

    async def next(self, timeout: float) -> list[Event]:
        """Return the next events. Wait up to `timeout` seconds for some; return [] after that."""
        if self._begun:
            return self._with_summary(await self._inner.next(timeout))
        clock = asyncio.get_running_loop().time
        deadline = clock() + timeout
        while True:
            if self._work and not await self._take_shortened(self._work, deadline - clock()):
                return []
            events = await self._inner.next(max(0.0, deadline - clock()))
            if not events:
                return []
            first = events[0]
            if self._refused is None and isinstance(first, Failed) and _concerns_messages(first):
                self._refused = first
                self._inner.close()
                self._work = asyncio.create_task(self._overflow.shorten(self._request, first))
                continue
            self._begun = True
            return self._with_summary(events)

    def may_restart(self, forget: Callable[[], None] | None) -> None:
        """Allow a restart after events were read: `forget` must then drop them. None: disallow it."""
        super().may_restart(forget)
        self._inner.may_restart(forget)

    def close(self, reason: Failed | None = None) -> None:
        """Stop the request; a reader that still waits gets `reason`."""
        self._closed = self._closed or reason or _CANCELLED
        if self._work:
            self._work.cancel()
        self._inner.close(reason)

    async def _take_shortened(self, work: "asyncio.Task[ShortenedRequest]", timeout: float) -> bool:
        """Continue with the result of `work`, if it ends within `timeout` seconds; return whether it did."""
        await asyncio.wait({work}, timeout=max(0.0, timeout))
        if not work.done():
            return False
        self._work = None
        try:
            if self._closed:
                raise self._closed.error()
            found = work.result()
            self._inner, self._summary = self._overflow.pool.stream(found.request), found.summary
            self._inner.may_restart(self.forget)
        except OrchardError as error:
            self._inner = EventStream()
            self._inner.push([Failed.from_error(error)])
        return True

    def _with_summary(self, events: list[Event]) -> list[Event]:
        """Return the next events. Add the summary to `Started`; replace a second failure for length by the first."""
        first = events[0] if events else None
        if isinstance(first, Started) and self._summary:
            return [replace(first, summary=self._summary), *events[1:]]
        if self._refused and isinstance(first, Failed) and first.kind == "context_length_exceeded":
            log.info("the conversation can't be shortened: %s", first.message)
            return [self._refused]
        return events
